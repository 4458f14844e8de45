/* SPDX-License-Identifier: Apache-2.0
 *
 * clattn_sdpa and clattn_sdpa_plan: check, prepare, run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/gemm_path.h"
#include "attention/path.h"

/* All that a call needs to know before it enqueues anything. */
typedef struct sdpa_call {
  attention_problem problem;
  const clattn_tensor *query, *key, *value, *output; /* output NULL: not wanted */
  gemm_cut cut;
  int key_in_place, value_in_place, output_in_place; /* the product works on the caller's buffer */
  scratch_need scratch;
  trust_use use;
} sdpa_call;

/* --------------------------------------------------------------------------------------------------------- checking */

static clattn_status check_head_tensor(clattn_context *context, const char *name, const clattn_tensor *tensor,
                                       tensor_use use) {
  char shape[SHAPE_TEXT_SIZE];
  clattn_status status = tensor_check(context, name, tensor, use);
  if (status == CLATTN_SUCCESS) status = tensor_check_float(context, name, tensor->type);
  if (status != CLATTN_SUCCESS) return status;
  if (tensor->rank != 4)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "%s has shape %s, not rank 4", name,
                  shape_text(shape, tensor->rank, tensor->shape));
  return CLATTN_SUCCESS;
}

static clattn_status check_shapes(clattn_context *context, const sdpa_call *call) {
  const clattn_tensor *q = call->query, *k = call->key, *v = call->value, *o = call->output;
  char a[SHAPE_TEXT_SIZE], b[SHAPE_TEXT_SIZE];
  if (q->shape[1] == 0 || q->shape[3] == 0 || k->shape[1] == 0 || v->shape[3] == 0)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "query %s and value %s: heads and head sizes must be 1 or more",
                  shape_text(a, 4, q->shape), shape_text(b, 4, v->shape));
  if (k->shape[0] != q->shape[0] || k->shape[3] != q->shape[3])
    return REFUSE(context, CLATTN_INVALID_SHAPE, "key has shape %s, which does not fit query %s in batch or head size",
                  shape_text(a, 4, k->shape), shape_text(b, 4, q->shape));
  if (q->shape[1] % k->shape[1] != 0)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "key has %zu heads, which do not divide the query's %zu", k->shape[1],
                  q->shape[1]);
  if (memcmp(v->shape, k->shape, 3 * sizeof v->shape[0]) != 0)
    return REFUSE(context, CLATTN_INVALID_SHAPE,
                  "value has shape %s, which does not fit key %s in batch, heads or length", shape_text(a, 4, v->shape),
                  shape_text(b, 4, k->shape));
  if (o != NULL && (memcmp(o->shape, q->shape, 3 * sizeof o->shape[0]) != 0 || o->shape[3] != v->shape[3])) {
    const size_t want[4] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
    return REFUSE(context, CLATTN_INVALID_SHAPE, "output has shape %s, not %s", shape_text(a, 4, o->shape),
                  shape_text(b, 4, want));
  }
  return tensor_check_mix(context, q, k, v, o);
}

static clattn_status check_overlaps(clattn_context *context, sdpa_call *call) {
  size_t options = problem_option_arguments(&call->problem, NULL);
  tensor_argument *arguments = malloc((options + 4) * sizeof *arguments);
  if (arguments == NULL)
    return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a list of %zu arguments", options + 4);
  arguments[0] = (tensor_argument){"query", call->query, TENSOR_INPUT};
  arguments[1] = (tensor_argument){"key", call->key, TENSOR_INPUT};
  arguments[2] = (tensor_argument){"value", call->value, TENSOR_INPUT};
  arguments[3] = (tensor_argument){"output", call->output, TENSOR_OUTPUT};
  (void)problem_option_arguments(&call->problem, arguments + 4);
  clattn_status status = tensor_check_overlap(context, arguments, options + 4);
  free(arguments);
  return status;
}

static clattn_status read_problem(clattn_context *context, const clattn_options *options, sdpa_call *call) {
  attention_problem *problem = &call->problem;
  const clattn_tensor *q = call->query, *k = call->key;
  clattn_status status = options_read(context, options, &problem->options);
  if (status != CLATTN_SUCCESS) return status;
  problem->batch = q->shape[0];
  problem->heads = q->shape[1];
  problem->kv_heads = k->shape[1];
  problem->q_len = q->shape[2];
  problem->kv_len = k->shape[2];
  problem->head_dim = q->shape[3];
  problem->value_dim = call->value->shape[3];
  problem->extra_keys = problem->options.add_zero_key != 0;
  problem->wants_output = call->output != NULL;
  return problem_set_arithmetic(context, problem, q->type);
}

static clattn_status check(clattn_context *context, const clattn_options *options, sdpa_call *call) {
  clattn_status status = CLATTN_SUCCESS;
  CHECK(check_head_tensor(context, "query", call->query, TENSOR_INPUT));
  CHECK(check_head_tensor(context, "key", call->key, TENSOR_INPUT));
  CHECK(check_head_tensor(context, "value", call->value, TENSOR_INPUT));
  if (call->output != NULL) CHECK(check_head_tensor(context, "output", call->output, TENSOR_OUTPUT));
  CHECK(check_shapes(context, call));
  CHECK(read_problem(context, options, call));
  CHECK(problem_check_options(context, &call->problem));
  CHECK(check_overlaps(context, call));
  problem_drop_empty_masks(&call->problem);

cleanup:
  return status;
}

/* -------------------------------------------------------------------------------------------------------- preparing */

/* The units of a [B,G,rows,columns] view as one batch of matrices, if its strides allow it. */
static int as_matrices(const clattn_tensor *view, clattn_type compute, matrix *out) {
  const size_t *shape = view->shape, *stride = view->stride;
  size_t units = shape[0] * shape[1];
  if (view->type != compute || (shape[3] > 1 && stride[3] != 1)) return 0;
  out->buffer = view->buffer;
  out->offset = view->offset;
  out->ld = shape[2] > 1 ? stride[2] : shape[3];
  if (out->ld < shape[3]) return 0;
  out->stride = shape[1] > 1 ? stride[1] : stride[0];
  if (shape[0] > 1 && shape[1] > 1 && stride[0] != shape[1] * stride[1]) return 0;
  return blas_can_address(out, units, shape[2], shape[3]);
}

/* Which operands the products can take from where they are. A copy is needed for lengths, too: what lies past them may
 * be anything. */
static void choose_copies(sdpa_call *call) {
  const attention_problem *problem = &call->problem;
  matrix m;
  int copied = problem->options.kv_lengths != NULL || problem->extra_keys > 0 || problem->kv_len == 0;
  call->key_in_place = !copied && as_matrices(call->key, problem->compute, &m);
  call->value_in_place = !copied && as_matrices(call->value, problem->compute, &m) &&
                         blas_batch_is_safe(&m, problem->kv_len, problem->value_dim);
  call->output_in_place = call->output != NULL && problem_columns(problem) > 0 && problem->options.q_lengths == NULL &&
                          call->output->type == problem->compute && call->output->offset == 0 &&
                          tensor_is_contiguous(call->output) && as_matrices(call->output, problem->compute, &m);
}

/* Scratch memory of one unit's heads. */
static scratch_need unit_scratch(const sdpa_call *call) {
  const attention_problem *problem = &call->problem;
  const uint64_t element = clattn_type_size(problem->compute), rows = problem_group(problem) * problem->q_len;
  scratch_need unit;
  memset(&unit, 0, sizeof unit);
  if (problem_columns(problem) > 0) unit.bytes[SCRATCH_QUERY] = rows * problem->head_dim * element;
  if (problem_columns(problem) > 0 && !call->key_in_place)
    unit.bytes[SCRATCH_KEY] = problem_columns(problem) * problem->head_dim * element;
  if (problem_columns(problem) > 0 && problem->wants_output && !call->value_in_place)
    unit.bytes[SCRATCH_VALUE] = problem_columns(problem) * problem->value_dim * element;
  if (problem->wants_output && !call->output_in_place) unit.bytes[SCRATCH_HEADS] = rows * problem->value_dim * element;
  return unit;
}

static clattn_status prepare(clattn_context *context, sdpa_call *call) {
  clattn_status status = CLATTN_SUCCESS;
  choose_copies(call);
  scratch_need unit = unit_scratch(call);
  CHECK(gemm_cut_work(context, &call->problem, 1, SIZE_MAX, &unit, 0, &call->cut));
  call->scratch = scratch_times(&unit, call->cut.chunk_units);
  call->scratch.bytes[SCRATCH_SCORES] = call->cut.score_bytes;

cleanup:
  return status;
}

/* ---------------------------------------------------------------------------------------------------------- running */

/* Operands of a chunk: in scratch memory, which holds the chunk alone, or in place, where unit `first` begins further
 * in. */
static gemm_heads find_heads(const clattn_context *context, const sdpa_call *call, size_t first) {
  const attention_problem *problem = &call->problem;
  gemm_heads heads = gemm_scratch_heads(context, problem);
  if (call->key_in_place && as_matrices(call->key, problem->compute, &heads.key))
    heads.key.offset += first * heads.key.stride;
  if (call->value_in_place && as_matrices(call->value, problem->compute, &heads.value))
    heads.value.offset += first * heads.value.stride;
  if (call->output_in_place) {
    heads.output.buffer = call->output->buffer;
    heads.output.offset = first * heads.output.stride;
  }
  return heads;
}

static clattn_status run_chunk(clattn_context *context, const sdpa_call *call, size_t first, size_t units) {
  clattn_status status = CLATTN_SUCCESS;
  const attention_problem *problem = &call->problem;
  const bias_view none = {NULL, CLATTN_FLOAT32, 0, 0, 0};
  const extra_rows no_extra = {0, none}, extra = {problem->extra_keys, none};
  const dropout_view no_dropout = {0, 0, 0};
  const cl_mem *scratch = context->workspace.buffer;
  const size_t group = problem_group(problem);
  if (problem_columns(problem) == 0) {
    CHECK(gemm_attend_nothing(context, problem, problem->wants_output ? scratch[SCRATCH_HEADS] : NULL, first, units));
  } else {
    gemm_heads heads = find_heads(context, call, first);
    CHECK(split_heads(context, call->query, scratch[SCRATCH_QUERY], problem->compute, first * group, units * group,
                      gemm_query_scale(problem), none, no_extra, NULL));
    if (!call->key_in_place)
      CHECK(split_heads(context, call->key, scratch[SCRATCH_KEY], problem->compute, first, units, 1, none, extra,
                        problem->options.kv_lengths));
    if (!call->value_in_place && problem->wants_output)
      CHECK(split_heads(context, call->value, scratch[SCRATCH_VALUE], problem->compute, first, units, 1, none, extra,
                        problem->options.kv_lengths));
    CHECK(gemm_attend(context, problem, &call->cut, &heads, first, units));
  }
  if (problem->wants_output && !call->output_in_place)
    CHECK(merge_heads(context, scratch[SCRATCH_HEADS], call->output, problem->compute, first * group, units * group,
                      none, problem->options.q_lengths, no_dropout));

cleanup:
  return status;
}

static int has_work(const sdpa_call *call) {
  return call->problem.batch > 0 && call->problem.q_len > 0;
}

static clattn_status run(clattn_context *context, sdpa_call *call) {
  clattn_status status = CLATTN_SUCCESS;
  const clattn_options *options = &call->problem.options;
  const lent_scratch lent = problem_lent(&call->problem);
  if (has_work(call)) CHECK(workspace_reserve(context, &call->scratch, &lent));
  CHECK(context_enqueue_wait(context, options->wait_count, options->wait_list));
  if (has_work(call))
    for (size_t first = 0; first < call->cut.units; first += call->cut.chunk_units) {
      size_t left = call->cut.units - first;
      CHECK(run_chunk(context, call, first, left < call->cut.chunk_units ? left : call->cut.chunk_units));
    }
  CHECK(context_enqueue_event(context, options->event));

cleanup:
  workspace_return(context);
  return status;
}

/* ----------------------------------------------------------------------------------------------------------- public */

static unsigned used_features(const sdpa_call *call) {
  unsigned features = path_option_features(&call->problem) | path_tensor_features(call->query, 1) |
                      path_tensor_features(call->key, 1) | path_tensor_features(call->value, 1) |
                      path_tensor_features(call->output, 1);
  return features | (call->cut.slices > 1 ? TRUST_SLICES : 0);
}

static clattn_status begin_call(clattn_context *context, const clattn_tensor *query, const clattn_tensor *key,
                                const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options,
                                sdpa_call *call) {
  clattn_status status = context_begin(context);
  if (status != CLATTN_SUCCESS) return status;
  memset(call, 0, sizeof *call);
  call->query = query;
  call->key = key;
  call->value = value;
  call->output = output;
  CHECK(check(context, options, call));
  if (!has_work(call)) return CLATTN_SUCCESS;
  CHECK(prepare(context, call));
  call->use = (trust_use){CLATTN_PATH_AUTO, call->problem.compute, used_features(call)};
  CHECK(path_choose(context, &call->problem, call->use.features, &call->use.path));

cleanup:
  return status;
}

clattn_status clattn_sdpa(clattn_context *context, const clattn_tensor *query, const clattn_tensor *key,
                          const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options) {
  sdpa_call call;
  clattn_status status = begin_call(context, query, key, value, output, options, &call);
  return status == CLATTN_SUCCESS ? run(context, &call) : status;
}

/* Where a product finds an operand, and why it is no longer where the caller has it. */
static void explain_operand(const sdpa_call *call, const char *name, const clattn_tensor *tensor, int in_place,
                            text_builder *text) {
  const attention_problem *problem = &call->problem;
  text_add(text, ", %s", name);
  if (in_place)
    text_add(text, " in place");
  else if (problem->extra_keys > 0)
    text_add(text, " copied (a zero key behind it)");
  else if (problem->options.kv_lengths != NULL)
    text_add(text, " copied (zeros behind kv_lengths)");
  else if (tensor->type != problem->compute)
    text_add(text, " copied (%s to %s)", clattn_type_name(tensor->type), clattn_type_name(problem->compute));
  else
    text_add(text, " copied (its strides or offset fit no batch)");
}

static void explain_split(const sdpa_call *call, text_builder *text) {
  char shape[SHAPE_TEXT_SIZE];
  if (problem_columns(&call->problem) == 0) return;
  text_add(text, "split_heads: query %s copied (the scale goes into it)", shape_text(shape, 4, call->query->shape));
  explain_operand(call, "key", call->key, call->key_in_place, text);
  if (call->problem.wants_output) explain_operand(call, "value", call->value, call->value_in_place, text);
  text_add(text, "\n");
}

static void explain_merge(const sdpa_call *call, text_builder *text) {
  const attention_problem *problem = &call->problem;
  char shape[SHAPE_TEXT_SIZE];
  if (!problem->wants_output) return;
  (void)shape_text(shape, 4, call->output->shape);
  if (call->output_in_place)
    text_add(text, "output: %s written in place\n", shape);
  else if (problem->options.q_lengths != NULL)
    text_add(text, "merge_heads: output %s copied (zeros behind q_lengths)\n", shape);
  else if (call->output->type != problem->compute)
    text_add(text, "merge_heads: output %s copied (%s to %s)\n", shape, clattn_type_name(problem->compute),
             clattn_type_name(call->output->type));
  else
    text_add(text, "merge_heads: output %s copied (its strides or offset fit no batch)\n", shape);
}

clattn_status clattn_sdpa_plan(clattn_context *context, const clattn_tensor *query, const clattn_tensor *key,
                               const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options,
                               clattn_plan *plan) {
  sdpa_call call;
  clattn_status status = begin_call(context, query, key, value, output, options, &call);
  if (status == CLATTN_SELF_CHECK_FAILED && plan != NULL) path_explain_none(context, plan);
  if (status != CLATTN_SUCCESS) return status;
  if (plan == NULL) return REFUSE(context, CLATTN_INVALID_ARGUMENT, "plan is NULL");
  memset(plan, 0, sizeof *plan);
  plan->path = has_work(&call) ? call.use.path : CLATTN_PATH_GEMM;
  text_builder text = text_begin(plan->text, sizeof plan->text);
  if (!has_work(&call)) {
    text_add(&text, "path: none, there is no query\n");
    return CLATTN_SUCCESS;
  }
  gemm_heads heads = find_heads(context, &call, 0);
  CHECK(gemm_temporary_bytes(context, &call.problem, &call.cut, &heads, &plan->library_bytes));
  plan->scratch_bytes = scratch_total(context, &call.scratch);
  plan->slices = call.cut.slices;
  gemm_explain_path(&call.problem, &text);
  explain_split(&call, &text);
  gemm_explain(context, &call.problem, &call.cut, &heads, &text);
  explain_merge(&call, &text);
  text_add(&text, "memory: %llu bytes of scratch, up to %llu bytes inside CLBlast\n",
           (unsigned long long)plan->scratch_bytes, (unsigned long long)plan->library_bytes);
  trust_explain(context, call.use, &text);

cleanup:
  return status;
}
