/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of clattn_mha_forward from a description: parameters and inputs made, run twice between guards, compared
 * with the reference. */
#ifndef CLATTN_TESTS_LAYER_CASE_H
#define CLATTN_TESTS_LAYER_CASE_H

#include "request.h"

typedef struct layer_case {
  size_t batch, q_len, kv_len;
  int empty;                /* the extents above are meant where they are 0; otherwise 0 counts as 1 */
  clattn_mha_config config; /* fields at 0 take the header's defaults; struct_size and bias are set by the case */
  int no_bias;
  enum { TEST_APART, TEST_SELF, TEST_KEY_IS_VALUE } inputs; /* key and value given, both NULL, or value NULL */
  int sequence_first;                                       /* all inputs and the output are [T,B,E] data */
  clattn_type type;                                         /* of inputs and output; 0: FLOAT32 */
  clattn_type key_type, value_type, output_type;            /* 0: as `type` */
  clattn_type parameter_type;                               /* 0: as `type` */
  clattn_type compute;                                      /* of the layer, as in clattn_mha_create */
  uint64_t seed;
  double spread;                                   /* standard deviation of drawn inputs; 0: 1 */
  const double *query, *key, *value;               /* row-major inputs instead of drawn ones */
  const double *parameter[CLATTN_PARAMETER_COUNT]; /* alike */
  test_layout query_layout, key_layout, value_layout;
  test_request request;
} layer_case;

/* Runs the case. 1 and the results, or 0 and a line. Unless key and query are one, keys past kv_lengths and queries
 * past q_lengths are NaN. */
int layer_case_run(clattn_context *context, const layer_case *description, test_results *results, test_line *line);

/* Runs it and compares it with the reference: 1, or 0 and a line with the case and the first number that is wrong. */
int layer_case_check(clattn_context *context, const layer_case *description, test_line *line);

/* Runs it and compares the output with a closed form, within `bound`. */
int layer_case_expect(clattn_context *context, const layer_case *description, const double *output, double bound,
                      test_line *line);

/* What the library would do with the case; its status, unless that is SUCCESS, is what a run would give too. */
clattn_status layer_case_plan(clattn_context *context, const layer_case *description, clattn_plan *plan);

/* What the reference says of the case, with the bounds of its arithmetic. */
ref_layer_result layer_case_reference(clattn_context *context, const layer_case *description);

#define EXPECT_LAYER(context, ...)                                                                                     \
  do {                                                                                                                 \
    test_line line_ = {{0}};                                                                                           \
    cr_expect(layer_case_check((context), &(layer_case){__VA_ARGS__}, &line_), "%s", line_.text);                      \
  } while (0)

#endif
