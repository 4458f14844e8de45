/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test asks of an attention call beside its inputs: rules, masks, results; and the call built from it, for the
 * device and for the reference. Structs left at 0 ask for the plain thing. */
#ifndef CLATTN_TESTS_REQUEST_H
#define CLATTN_TESTS_REQUEST_H

#include "guarded.h"
#include "rng.h"

enum { TEST_MAX_MASKS = 12 };

typedef struct test_mask {
  clattn_mask_kind kind; /* 0: no mask, and none behind it */
  const char *axes;      /* which of [B,H,T,S] it has, as in "bs" or "hts"; along the others it repeats. NULL: "bhts" */
  enum { TEST_SHORT, TEST_FULL_RANK, TEST_STRIDE_0 } form; /* missing extents in front, extents of 1, or strides of 0 */
  clattn_type type;                                        /* of add terms; 0: FLOAT32 */
  double share;         /* of the drawn values that block (add: are minus infinity) */
  double spread;        /* standard deviation of drawn add values; 0: 1 */
  const double *values; /* the values instead of drawn ones, row-major over `axes` */
  test_layout layout;   /* not with TEST_STRIDE_0 */
} test_mask;

typedef enum test_slopes { TEST_NO_SLOPES, TEST_SLOPES_PER_HEAD, TEST_SLOPES_PER_ENTRY } test_slopes;

typedef enum test_weights { TEST_NO_WEIGHTS, TEST_PER_HEAD, TEST_MEAN } test_weights;

typedef struct test_request {
  struct {
    int set;
    double value;
  } scale;
  test_mask masks[TEST_MAX_MASKS];
  clattn_causal causal;
  int64_t causal_offset;
  struct {
    int set;
    int64_t left, right;
  } window;
  const int64_t *kv_lengths, *q_lengths; /* [B], or NULL */
  clattn_type lengths_type;              /* of both; 0: INT32 */
  double soft_cap;                       /* 0: none */
  test_slopes slopes;
  const double *slope_values; /* [H] or [B,H], instead of drawn ones */
  clattn_type slopes_type;    /* 0: FLOAT32 */
  int zero_key;
  double dropout, output_dropout;
  uint64_t dropout_seed;
  uint32_t dropout_call;
  int inference;

  test_weights weights;
  int log_sum_exp, no_output;
  test_layout output_layout, weights_layout, log_sum_exp_layout;
  clattn_type compute;
  uint64_t scratch_limit;
  int lends; /* 1: the scratch memory is ours, as much as the plan of the call says */
} test_request;

/* What came back, row-major; NULL where it was not asked for. */
typedef struct test_results {
  double *output, *weights, *log_sum_exp;
  size_t output_count, weights_count, log_sum_exp_count;
} test_results;

void results_release(test_results *results);

/* A request on the device and for the reference. */
typedef struct test_call {
  clattn_context *context;
  const test_request *request;
  size_t extent[5]; /* B, H, T, S, and the columns of the weights: S and the extra keys */
  clattn_type arithmetic;
  int mask_count;
  clattn_mask masks[TEST_MAX_MASKS];
  ref_mask ref_masks[TEST_MAX_MASKS];
  double *mask_values[TEST_MAX_MASKS];
  test_guarded mask_buffers[TEST_MAX_MASKS];
  double *slope_values;                                                           /* [B,H] */
  test_guarded lengths, q_lengths, slopes, output, weights, log_sum_exp, scratch; /* buffer NULL where not asked for */
} test_call;

/* arithmetic: FLOAT32 or FLOAT64, the type of the results beyond the output
 * type: of the inputs and the output; output_shape: [B,H,T,Dv] or [B,T,Eo] */
void call_build(test_call *call, clattn_context *context, const test_request *request, const size_t extent[5],
                clattn_type arithmetic, clattn_type type, const test_shape *output_shape, test_rng *rng);
void call_release(test_call *call);

/* Lends the call as much scratch memory as the plan says, between guards. */
void call_lend(test_call *call, const clattn_plan *plan);

/* The options of the library's call; they point into `call`. */
clattn_options call_options(const test_call *call);
/* NULL if no output is asked for. */
const clattn_tensor *call_output(const test_call *call);

/* The same for the reference. */
ref_rules call_reference_rules(const test_call *call);
double call_scale(const test_call *call);
ref_arithmetic call_arithmetic(const test_call *call);
/* Relative error of a number of `type` when it is brought to the arithmetic's type. */
double call_input_error(const test_call *call, clattn_type type);

/* Runs `enqueue` twice on outputs full of NaN. 1 if both succeed with the same bits and nothing but the outputs was
 * written. */
typedef clattn_status (*test_enqueue)(const void *user, const clattn_tensor *output, const clattn_options *options);
int call_run(test_call *call, test_enqueue enqueue, const void *user, test_results *results, test_line *line);

/* 1 if the results are those of the reference. `output` may be changed: rounded to the output's type. */
int call_compare(const test_call *call, const test_results *results, const ref_attention_result *attention,
                 ref_array *output, test_line *line);

/* "causal=1 masks=bhts/1 ...": the request in one line. */
void request_text(const test_request *request, char *text, size_t size);

#endif
