/* SPDX-License-Identifier: Apache-2.0
 *
 * clattn_mha_forward and clattn_mha_plan: check, prepare, run. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "attention/gemm_path.h"
#include "attention/path.h"
#include "layer/mha.h"

/* The three inputs that are projected. */
enum { IN_QUERY, IN_KEY, IN_VALUE, IN_COUNT };

/* How the rows of an input lie in memory. */
typedef enum row_order {
  ROWS_COPIED,      /* no order that a product can take: a contiguous copy is made, batch by batch */
  ROWS_BATCH_MAJOR, /* (b, t), in place */
  ROWS_TIME_MAJOR   /* (t, b), in place: sequence-first data; only for the whole batch at once */
} row_order;

typedef struct forward_call {
  clattn_mha *mha;
  attention_problem problem;
  const clattn_tensor *input[IN_COUNT];
  const clattn_tensor *output; /* NULL: not wanted */
  row_order order[IN_COUNT];
  gemm_cut cut;
  size_t chunk_entries; /* batch entries of a chunk */
  scratch_need scratch;
  trust_use use;
} forward_call;

static const char *const input_names[IN_COUNT] = {"query", "key", "value"};

/* --------------------------------------------------------------------------------------------------------- checking */

static clattn_status check_rows(clattn_context *context, const char *name, const clattn_tensor *tensor, tensor_use use,
                                size_t width) {
  char shape[SHAPE_TEXT_SIZE];
  clattn_status status = tensor_check(context, name, tensor, use);
  if (status == CLATTN_SUCCESS) status = tensor_check_float(context, name, tensor->type);
  if (status != CLATTN_SUCCESS) return status;
  if (tensor->rank != 3 || tensor->shape[2] != width)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "%s has shape %s, not [batch, length, %zu]", name,
                  shape_text(shape, tensor->rank, tensor->shape), width);
  return CLATTN_SUCCESS;
}

static clattn_status check_shapes(clattn_context *context, const forward_call *call) {
  const clattn_mha_config *config = &call->mha->config;
  const clattn_tensor *q = call->input[IN_QUERY], *k = call->input[IN_KEY], *v = call->input[IN_VALUE],
                      *o = call->output;
  const size_t widths[IN_COUNT] = {config->embed_dim, config->kdim, config->vdim};
  char a[SHAPE_TEXT_SIZE], b[SHAPE_TEXT_SIZE];
  for (int i = 0; i < IN_COUNT; i++) {
    clattn_status status = check_rows(context, input_names[i], call->input[i], TENSOR_INPUT, widths[i]);
    if (status != CLATTN_SUCCESS) return status;
  }
  if (k->shape[0] != q->shape[0])
    return REFUSE(context, CLATTN_INVALID_SHAPE, "key has shape %s, which does not fit query %s in batch",
                  shape_text(a, 3, k->shape), shape_text(b, 3, q->shape));
  if (memcmp(v->shape, k->shape, 2 * sizeof v->shape[0]) != 0)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "value has shape %s, which does not fit key %s in batch or length",
                  shape_text(a, 3, v->shape), shape_text(b, 3, k->shape));
  if (o == NULL) return tensor_check_mix(context, q, k, v, NULL);
  clattn_status status = check_rows(context, "output", o, TENSOR_OUTPUT, config->out_dim);
  if (status != CLATTN_SUCCESS) return status;
  if (memcmp(o->shape, q->shape, 2 * sizeof o->shape[0]) != 0)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "output has shape %s, which does not fit query %s in batch or length",
                  shape_text(a, 3, o->shape), shape_text(b, 3, q->shape));
  return tensor_check_mix(context, q, k, v, o);
}

static clattn_status check_overlaps(clattn_context *context, forward_call *call) {
  clattn_tensor weights[CLATTN_PARAMETER_COUNT];
  size_t options = problem_option_arguments(&call->problem, NULL), count = 0;
  tensor_argument *arguments = malloc((options + IN_COUNT + 1 + CLATTN_PARAMETER_COUNT) * sizeof *arguments);
  if (arguments == NULL) return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a list of arguments");
  for (int i = 0; i < IN_COUNT; i++)
    arguments[count++] = (tensor_argument){input_names[i], call->input[i], TENSOR_INPUT};
  arguments[count++] = (tensor_argument){"output", call->output, TENSOR_OUTPUT};
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    weights[which] = clattn_mha_parameter(call->mha, (clattn_parameter)which);
    if (weights[which].buffer != NULL)
      arguments[count++] = (tensor_argument){"a parameter of the layer", &weights[which], TENSOR_INPUT};
  }
  (void)problem_option_arguments(&call->problem, arguments + count);
  clattn_status status = tensor_check_overlap(context, arguments, count + options);
  free(arguments);
  return status;
}

static clattn_status read_problem(clattn_context *context, const clattn_options *options, forward_call *call) {
  attention_problem *problem = &call->problem;
  const clattn_mha_config *config = &call->mha->config;
  clattn_status status = options_read(context, options, &problem->options);
  if (status != CLATTN_SUCCESS) return status;
  problem->batch = call->input[IN_QUERY]->shape[0];
  problem->heads = config->heads;
  problem->kv_heads = config->kv_heads;
  problem->q_len = call->input[IN_QUERY]->shape[1];
  problem->kv_len = call->input[IN_KEY]->shape[1];
  problem->head_dim = config->head_dim;
  problem->value_dim = config->value_head_dim;
  problem->bias_key = config->bias_kv;
  problem->extra_keys = (size_t)(config->bias_kv != 0) + (problem->options.add_zero_key != 0);
  problem->wants_output = call->output != NULL;
  if (problem->options.compute != 0 && problem->options.compute != call->mha->compute)
    return REFUSE(context, CLATTN_INVALID_TYPE, "compute is %s (%d) while the layer was made for %s",
                  clattn_type_name(problem->options.compute), (int)problem->options.compute,
                  clattn_type_name(call->mha->compute));
  return problem_set_arithmetic(context, problem, call->mha->compute);
}

static clattn_status check(clattn_context *context, const clattn_options *options, forward_call *call) {
  clattn_status status = CLATTN_SUCCESS;
  CHECK(check_shapes(context, call));
  CHECK(read_problem(context, options, call));
  CHECK(problem_check_options(context, &call->problem));
  CHECK(check_overlaps(context, call));
  problem_drop_empty_masks(&call->problem);

cleanup:
  return status;
}

/* -------------------------------------------------------------------------------------------------------- preparing */

/* A [B,length,width] view as the rows of one matrix, for `entries` batch entries at a time, if a product can take it in
 * place. */
static row_order find_rows(const clattn_tensor *view, clattn_type compute, size_t entries, matrix *out) {
  const size_t batch = view->shape[0], length = view->shape[1], width = view->shape[2];
  const size_t *stride = view->stride;
  row_order order = ROWS_BATCH_MAJOR;
  uint64_t end = 0;
  if (view->type != compute || (width > 1 && stride[2] != 1) || tensor_is_empty(view)) return ROWS_COPIED;
  *out = (matrix){view->buffer, view->offset, width, 0};
  if (length == 1) {
    if (entries > 1) out->ld = stride[0];
  } else if (entries == 1 || stride[0] == length * stride[1]) {
    out->ld = stride[1];
  } else if (entries == batch && stride[1] == batch * stride[0]) {
    order = ROWS_TIME_MAJOR;
    out->ld = stride[0];
  } else {
    return ROWS_COPIED;
  }
  return out->ld >= width && tensor_end(view, &end) && end <= INT_MAX ? order : ROWS_COPIED;
}

static size_t wanted_inputs(const forward_call *call) {
  if (problem_columns(&call->problem) == 0) return 0; /* there is nothing to attend to: the heads are zero */
  return call->problem.wants_output ? IN_COUNT : IN_VALUE;
}

static void find_orders(forward_call *call, size_t entries) {
  matrix unused;
  for (int i = 0; i < IN_COUNT; i++) call->order[i] = find_rows(call->input[i], call->mha->compute, entries, &unused);
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Scratch memory of one batch entry. */
static scratch_need entry_scratch(const forward_call *call) {
  const attention_problem *p = &call->problem;
  const uint64_t element = clattn_type_size(p->compute);
  const uint64_t q = p->heads * p->head_dim, k = p->kv_heads * p->head_dim, v = p->kv_heads * p->value_dim;
  const uint64_t o = p->heads * p->value_dim;
  const uint64_t columns = problem_columns(p), slots[IN_COUNT] = {p->q_len * q, columns * k, columns * v};
  scratch_need entry;
  memset(&entry, 0, sizeof entry);
  uint64_t *bytes = entry.bytes;
  for (size_t i = 0; i < wanted_inputs(call); i++) {
    const clattn_tensor *input = call->input[i];
    bytes[SCRATCH_ROWS] = larger(bytes[SCRATCH_ROWS], slots[i] * element);
    bytes[SCRATCH_QUERY + i] = slots[i] * element;
    if (call->order[i] == ROWS_COPIED)
      bytes[SCRATCH_INPUT] = larger(bytes[SCRATCH_INPUT], (uint64_t)input->shape[1] * input->shape[2] * element);
  }
  if (p->wants_output) {
    bytes[SCRATCH_HEADS] = bytes[SCRATCH_MERGED] = p->q_len * o * element;
    bytes[SCRATCH_ROWS] = larger(bytes[SCRATCH_ROWS], p->q_len * call->mha->config.out_dim * element);
  }
  return entry;
}

/* Weights that have to be copied are copied one after the other into the same memory. */
static uint64_t largest_weight_copy(const forward_call *call) {
  uint64_t bytes = 0;
  for (size_t w = 0; w < wanted_inputs(call); w++)
    bytes = larger(bytes, weight_copy_bytes(call->mha, (clattn_parameter)w));
  return call->problem.wants_output ? larger(bytes, weight_copy_bytes(call->mha, CLATTN_WO)) : bytes;
}

static clattn_status prepare(clattn_context *context, forward_call *call) {
  clattn_status status = CLATTN_SUCCESS;
  const attention_problem *problem = &call->problem;
  const scratch_need weight = {.bytes = {[SCRATCH_WEIGHT] = largest_weight_copy(call)}};
  scratch_need entry;
  size_t entries = problem->batch;
  /* Which rows can stay where they are, and so how much memory they take, depends on how many entries go at a time: cut
   * finer until it is as many as was thought. One alone often needs no copy of its rows. */
  for (;; entries = call->chunk_entries) {
    find_orders(call, entries);
    entry = entry_scratch(call);
    status = gemm_cut_work(context, problem, problem->kv_heads, entries, &entry, scratch_total(context, &weight),
                           &call->cut);
    const int too_much = status == CLATTN_OUT_OF_DEVICE_MEMORY && entries > 1;
    if (too_much) message_clear(context_message(context));
    if (!too_much) CHECK(status);
    call->chunk_entries = too_much ? 1 : call->cut.chunk_units / problem->kv_heads;
    if (call->chunk_entries == entries) break;
  }
  call->scratch = scratch_times(&entry, call->chunk_entries);
  call->scratch.bytes[SCRATCH_WEIGHT] = weight.bytes[SCRATCH_WEIGHT];
  call->scratch.bytes[SCRATCH_SCORES] = call->cut.score_bytes;

cleanup:
  return status;
}

/* ---------------------------------------------------------------------------------------------------------- running */

/* [entries, heads, length, size] view of rows [entries * length, heads * size] in either order. */
static clattn_tensor view_rows(cl_mem rows, clattn_type type, row_order order, size_t entries, size_t length,
                               size_t heads, size_t size) {
  const size_t width = heads * size, shape[4] = {entries, heads, length, size};
  clattn_tensor view = clattn_tensor_view(rows, 0, type, 4, shape);
  view.stride[0] = order == ROWS_TIME_MAJOR ? width : length * width;
  view.stride[1] = size;
  view.stride[2] = order == ROWS_TIME_MAJOR ? entries * width : width;
  return view;
}

/* A [B,length,width] view as [B,1,length,width]. */
static clattn_tensor with_one_head(const clattn_tensor *view) {
  clattn_tensor out = *view;
  out.rank = 4;
  out.shape[1] = 1;
  out.stride[1] = 0;
  for (int i = 1; i < 3; i++) {
    out.shape[i + 1] = view->shape[i];
    out.stride[i + 1] = view->stride[i];
  }
  return out;
}

/* The rows of a chunk of an input: where they are, or copied. */
static clattn_status take_rows(const forward_call *call, int which, size_t first, size_t entries, matrix *rows) {
  clattn_context *context = call->mha->context;
  const clattn_tensor *input = call->input[which];
  const bias_view none = {NULL, CLATTN_FLOAT32, 0, 0, 0};
  const extra_rows no_extra = {0, none};
  if (call->order[which] != ROWS_COPIED) {
    (void)find_rows(input, call->mha->compute, call->chunk_entries, rows);
    rows->offset += first * input->stride[0];
    return CLATTN_SUCCESS;
  }
  clattn_tensor view = with_one_head(input);
  *rows = (matrix){context->workspace.buffer[SCRATCH_INPUT], 0, input->shape[2], 0};
  return split_heads(context, &view, rows->buffer, call->mha->compute, first, entries, 1, none, no_extra, NULL);
}

/* Projects one input of a chunk and splits it into heads: bias, scale and lengths come with the copy. */
static clattn_status make_heads(const forward_call *call, int which, size_t first, size_t entries) {
  clattn_status status = CLATTN_SUCCESS;
  clattn_mha *mha = call->mha;
  clattn_context *context = mha->context;
  const attention_problem *problem = &call->problem;
  const size_t length = call->input[which]->shape[1];
  const size_t heads = which == IN_QUERY ? problem->heads : problem->kv_heads;
  const size_t size = which == IN_VALUE ? problem->value_dim : problem->head_dim;
  cl_mem projected = context->workspace.buffer[SCRATCH_ROWS];
  matrix rows;
  if (length > 0) { /* without keys there may still be extra ones */
    CHECK(take_rows(call, which, first, entries, &rows));
    CHECK(project(mha, (clattn_parameter)(CLATTN_WQ + which), rows, entries * length, projected));
  }

  clattn_tensor view = view_rows(projected, mha->compute, call->order[which], entries, length, heads, size), lengths;
  const bias_view none = {NULL, CLATTN_FLOAT32, 0, 0, 0}, bias = mha_bias(mha, (clattn_parameter)(CLATTN_BQ + which));
  const extra_rows extra = {which == IN_QUERY ? 0 : problem->extra_keys,
                            which == IN_QUERY ? none : mha_bias(mha, which == IN_KEY ? CLATTN_BIAS_K : CLATTN_BIAS_V)};
  const int limited = which != IN_QUERY && problem->options.kv_lengths != NULL;
  if (limited) {
    lengths = *problem->options.kv_lengths;
    lengths.offset += first * lengths.stride[0];
  }
  CHECK(split_heads(context, &view, context->workspace.buffer[SCRATCH_QUERY + which], mha->compute, 0, entries * heads,
                    which == IN_QUERY ? gemm_query_scale(problem) : 1, bias, extra, limited ? &lengths : NULL));

cleanup:
  return status;
}

/* Merges the heads of a chunk and projects them into the output. */
static clattn_status make_output(const forward_call *call, size_t first, size_t entries) {
  clattn_status status = CLATTN_SUCCESS;
  clattn_mha *mha = call->mha;
  clattn_context *context = mha->context;
  const attention_problem *problem = &call->problem;
  const cl_mem *scratch = context->workspace.buffer;
  const bias_view none = {NULL, CLATTN_FLOAT32, 0, 0, 0}, bias = mha_bias(mha, CLATTN_BO);
  const clattn_options *options = &problem->options;
  const dropout_view no_dropout = {0, 0, 0}, dropout = {options->inference ? 0 : options->output_dropout,
                                                        options->dropout_seed, options->dropout_call};
  const size_t width = problem->heads * problem->value_dim;
  clattn_tensor merged = view_rows(scratch[SCRATCH_MERGED], mha->compute, ROWS_BATCH_MAJOR, entries, problem->q_len,
                                   problem->heads, problem->value_dim);
  CHECK(merge_heads(context, scratch[SCRATCH_HEADS], &merged, mha->compute, 0, entries * problem->heads, none, NULL,
                    no_dropout));
  matrix rows = {scratch[SCRATCH_MERGED], 0, width, 0};
  CHECK(project(mha, CLATTN_WO, rows, entries * problem->q_len, scratch[SCRATCH_ROWS]));
  clattn_tensor output = with_one_head(call->output);
  CHECK(merge_heads(context, scratch[SCRATCH_ROWS], &output, mha->compute, first, entries, bias, options->q_lengths,
                    dropout));

cleanup:
  return status;
}

static clattn_status run_chunk(const forward_call *call, size_t first, size_t entries) {
  clattn_status status = CLATTN_SUCCESS;
  clattn_context *context = call->mha->context;
  const attention_problem *problem = &call->problem;
  const size_t first_unit = first * problem->kv_heads, units = entries * problem->kv_heads;
  for (size_t i = 0; i < wanted_inputs(call); i++) CHECK(make_heads(call, (int)i, first, entries));
  if (problem_columns(problem) == 0) {
    cl_mem heads = problem->wants_output ? context->workspace.buffer[SCRATCH_HEADS] : NULL;
    CHECK(gemm_attend_nothing(context, problem, heads, first_unit, units));
  } else {
    gemm_heads heads = gemm_scratch_heads(context, problem);
    CHECK(gemm_attend(context, problem, &call->cut, &heads, first_unit, units));
  }
  if (problem->wants_output) CHECK(make_output(call, first, entries));

cleanup:
  return status;
}

static int has_work(const forward_call *call) {
  return call->problem.batch > 0 && call->problem.q_len > 0;
}

static clattn_status run(const forward_call *call) {
  clattn_status status = CLATTN_SUCCESS;
  clattn_context *context = call->mha->context;
  const clattn_options *options = &call->problem.options;
  const lent_scratch lent = problem_lent(&call->problem);
  if (has_work(call)) CHECK(workspace_reserve(context, &call->scratch, &lent));
  CHECK(context_enqueue_wait(context, options->wait_count, options->wait_list));
  for (size_t first = 0; has_work(call) && first < call->problem.batch; first += call->chunk_entries) {
    size_t left = call->problem.batch - first;
    CHECK(run_chunk(call, first, left < call->chunk_entries ? left : call->chunk_entries));
  }
  CHECK(context_enqueue_event(context, options->event));

cleanup:
  workspace_return(context);
  return status;
}

/* ----------------------------------------------------------------------------------------------------------- public */

static unsigned used_features(const forward_call *call) {
  const clattn_options *options = &call->problem.options;
  unsigned features = TRUST_LAYER | path_option_features(&call->problem) | path_tensor_features(call->output, 1);
  for (int w = CLATTN_WQ; w <= CLATTN_WO; w++) {
    size_t out = 0, in = 0, length = w == CLATTN_WO ? call->problem.q_len : call->input[w]->shape[1];
    config_shape(&call->mha->config, (clattn_parameter)w, &out, &in);
    features |= path_product_features(call->chunk_entries * length, out, in);
    if (w != CLATTN_WO) features |= path_tensor_features(call->input[w], 1);
  }
  if (!options->inference && options->output_dropout > 0) features |= TRUST_OUTPUT_DROPOUT;
  return features | (call->cut.slices > 1 ? TRUST_SLICES : 0);
}

static clattn_status begin_call(clattn_mha *mha, const clattn_tensor *query, const clattn_tensor *key,
                                const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options,
                                forward_call *call) {
  if (mha == NULL) return CLATTN_INVALID_ARGUMENT;
  clattn_status status = context_begin(mha->context);
  if (status != CLATTN_SUCCESS) return status;
  memset(call, 0, sizeof *call);
  call->mha = mha;
  call->input[IN_QUERY] = query;
  call->input[IN_KEY] = key != NULL ? key : query;
  call->input[IN_VALUE] = value != NULL ? value : call->input[IN_KEY];
  call->output = output;
  CHECK(check(mha->context, options, call));
  if (!has_work(call)) return CLATTN_SUCCESS;
  CHECK(prepare(mha->context, call));
  call->use = (trust_use){CLATTN_PATH_AUTO, call->problem.compute, used_features(call)};
  CHECK(path_choose(mha->context, &call->problem, call->use.features, &call->use.path));

cleanup:
  return status;
}

clattn_status clattn_mha_forward(clattn_mha *mha, const clattn_tensor *query, const clattn_tensor *key,
                                 const clattn_tensor *value, const clattn_tensor *output,
                                 const clattn_options *options) {
  forward_call call;
  clattn_status status = begin_call(mha, query, key, value, output, options, &call);
  return status == CLATTN_SUCCESS ? run(&call) : status;
}

/* The largest of CLBlast's needs: products run one after the other. */
static clattn_status temporary_bytes(const forward_call *call, uint64_t *bytes) {
  clattn_status status = CLATTN_SUCCESS;
  clattn_context *context = call->mha->context;
  const attention_problem *problem = &call->problem;
  gemm_heads heads = gemm_scratch_heads(context, problem);
  uint64_t one = 0;
  CHECK(gemm_temporary_bytes(context, problem, &call->cut, &heads, bytes));
  for (size_t w = 0; w < 4; w++) {
    if (w == CLATTN_WO ? !problem->wants_output : w >= wanted_inputs(call)) continue;
    const size_t length = w == CLATTN_WO ? problem->q_len : call->input[w]->shape[1];
    if (length == 0) continue;
    CHECK(projection_temporary_bytes(call->mha, (clattn_parameter)w, call->chunk_entries * length, &one));
    *bytes = larger(*bytes, one);
  }

cleanup:
  return status;
}

/* How an input is projected: "CLBlast Sgemm [10,12][12,12]^T in place". */
static void explain_projection(const forward_call *call, size_t which, text_builder *text) {
  const clattn_type compute = call->mha->compute;
  const clattn_tensor *input = call->input[which];
  if (input->shape[1] == 0) {
    text_add(text, "none, it is empty");
    return;
  }
  projection_explain(call->mha, (clattn_parameter)(CLATTN_WQ + which), call->chunk_entries * input->shape[1], text);
  if (call->order[which] != ROWS_COPIED)
    text_add(text, " in place%s", call->order[which] == ROWS_TIME_MAJOR ? " (sequence first)" : "");
  else if (input->type != compute)
    text_add(text, " after split_heads (%s to %s)", clattn_type_name(input->type), clattn_type_name(compute));
  else
    text_add(text, " after split_heads (no product takes such strides)");
}

/* The three are often alike, and are told of once then. */
static void explain_projections(const forward_call *call, text_builder *text) {
  char parts[IN_COUNT][256];
  const size_t count = wanted_inputs(call);
  for (size_t i = 0; i < count; i++) {
    text_builder part = text_begin(parts[i], sizeof parts[i]);
    explain_projection(call, i, &part);
    const int repeats = i > 0 && strcmp(parts[i], parts[i - 1]) == 0;
    text_add(text, "%s%s: %s", i == 0 ? "projections: " : "; ", input_names[i], repeats ? "the same" : parts[i]);
  }
  if (count > 0) text_add(text, "\n");
}

/* The copies of the projected rows into heads, with what happens on the way. */
static void explain_split(const forward_call *call, text_builder *text) {
  const attention_problem *p = &call->problem;
  const size_t entries = call->chunk_entries, columns = problem_columns(p), count = wanted_inputs(call);
  const char *bias = call->mha->config.bias ? "bias, " : "";
  if (count == 0) return;
  text_add(text, "split_heads: query [%zu,%zu,%zu,%zu] (%sscale, heads apart); key [%zu,%zu,%zu,%zu]", entries,
           p->heads, p->q_len, p->head_dim, bias, entries, p->kv_heads, columns, p->head_dim);
  if (count > IN_VALUE) text_add(text, ", value [%zu,%zu,%zu,%zu]", entries, p->kv_heads, columns, p->value_dim);
  text_add(text, " (%sheads apart%s%s)\n", bias, p->extra_keys > 0 ? ", extra keys" : "",
           p->options.kv_lengths != NULL ? ", zeros behind kv_lengths" : "");
}

/* The stages round the attention itself, in their order. */
static void explain(const forward_call *call, text_builder *text) {
  const clattn_mha *mha = call->mha;
  const attention_problem *p = &call->problem;
  const gemm_heads heads = gemm_scratch_heads(mha->context, p);
  const size_t entries = call->chunk_entries;
  const char *bias = mha->config.bias ? "bias, " : "";
  gemm_explain_path(p, text);
  text_add(text, "batch: %zu of %zu entries at a time\n", entries, p->batch);
  explain_projections(call, text);
  explain_split(call, text);
  gemm_explain(mha->context, p, &call->cut, &heads, text);
  if (!p->wants_output) return;
  text_add(text, "merge_heads: [%zu,%zu,%zu,%zu] to [%zu,%zu,%zu]\nout-projection: ", entries, p->heads, p->q_len,
           p->value_dim, entries, p->q_len, p->heads * p->value_dim);
  projection_explain(mha, CLATTN_WO, entries * p->q_len, text);
  text_add(text, ", merge_heads into the output (%sas %s%s%s)\n", bias, clattn_type_name(call->output->type),
           p->options.output_dropout > 0 && !p->options.inference ? ", dropout" : "",
           p->options.q_lengths != NULL ? ", zeros behind q_lengths" : "");
}

clattn_status clattn_mha_plan(clattn_mha *mha, const clattn_tensor *query, const clattn_tensor *key,
                              const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options,
                              clattn_plan *plan) {
  forward_call call;
  clattn_status status = begin_call(mha, query, key, value, output, options, &call);
  if (status == CLATTN_SELF_CHECK_FAILED && plan != NULL) path_explain_none(mha->context, plan);
  if (status != CLATTN_SUCCESS) return status;
  if (plan == NULL) return REFUSE(mha->context, CLATTN_INVALID_ARGUMENT, "plan is NULL");
  memset(plan, 0, sizeof *plan);
  plan->path = has_work(&call) ? call.use.path : CLATTN_PATH_GEMM;
  text_builder text = text_begin(plan->text, sizeof plan->text);
  if (!has_work(&call)) {
    text_add(&text, "path: none, there is no query\n");
    return CLATTN_SUCCESS;
  }
  CHECK(temporary_bytes(&call, &plan->library_bytes));
  plan->scratch_bytes = scratch_total(mha->context, &call.scratch);
  plan->slices = call.cut.slices;
  explain(&call, &text);
  text_add(&text, "memory: %llu bytes of scratch, up to %llu bytes inside CLBlast\n",
           (unsigned long long)plan->scratch_bytes, (unsigned long long)plan->library_bytes);
  trust_explain(mha->context, call.use, &text);

cleanup:
  return status;
}
