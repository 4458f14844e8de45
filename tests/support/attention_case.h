/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of clattn_sdpa from a description: inputs made, run twice between guards, compared with the reference. */
#ifndef CLATTN_TESTS_ATTENTION_CASE_H
#define CLATTN_TESTS_ATTENTION_CASE_H

#include "request.h"

typedef struct attention_case {
  size_t batch, heads, q_len, kv_len, head_dim, value_head_dim; /* 0 counts as 1 unless `empty` is set */
  size_t kv_heads;                                              /* 0: heads */
  int empty;
  clattn_type type;                              /* of Q, K, V and the output; 0: FLOAT32 */
  clattn_type key_type, value_type, output_type; /* 0: as `type` */
  uint64_t seed;
  double spread;                     /* standard deviation of drawn inputs; 0: 1 */
  const double *query, *key, *value; /* row-major inputs instead of drawn ones */
  test_layout query_layout, key_layout, value_layout;
  test_request request;
} attention_case;

/* Runs the case. Keys and values past kv_lengths and queries past q_lengths are NaN. 1 and the results, or 0 and a
 * line. */
int attention_case_run(clattn_context *context, const attention_case *description, test_results *results,
                       test_line *line);

/* Runs it and compares it with the reference: 1, or 0 and a line with the case and the first number that is wrong. */
int attention_case_check(clattn_context *context, const attention_case *description, test_line *line);

/* Runs it and compares output and weights (either may be NULL) with closed forms, within `bound`. */
int attention_case_expect(clattn_context *context, const attention_case *description, const double *output,
                          const double *weights, double bound, test_line *line);

/* What the library would do with the case; its status, unless that is SUCCESS, is what a run would give too. */
clattn_status attention_case_plan(clattn_context *context, const attention_case *description, clattn_plan *plan);

#define EXPECT_CASE(context, ...)                                                                                      \
  do {                                                                                                                 \
    test_line line_ = {{0}};                                                                                           \
    cr_expect(attention_case_check((context), &(attention_case){__VA_ARGS__}, &line_), "%s", line_.text);              \
  } while (0)

#endif
