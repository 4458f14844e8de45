/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void results_release(test_results *results) {
  free(results->output);
  free(results->weights);
  free(results->log_sum_exp);
  *results = (test_results){0};
}

/* ---------------------------------------------------------------------------------------------------------- masks */

static double draw_mask_value(const test_mask *mask, test_rng *rng) {
  const int blocks = rng_uniform(rng) < mask->share;
  const double others[] = {1, 2, 255}; /* any byte but 0 is true */
  const double truth = others[rng_below(rng, 3)], added = rng_normal(rng) * (mask->spread > 0 ? mask->spread : 1);
  if (mask->kind == CLATTN_MASK_BLOCK) return blocks ? truth : 0;
  if (mask->kind == CLATTN_MASK_KEEP) return blocks ? 0 : truth;
  return blocks ? -HUGE_VAL : added;
}

static void build_mask(test_call *call, int m, test_rng *rng) {
  const test_mask *mask = &call->request->masks[m];
  const clattn_type type = mask->kind != CLATTN_MASK_ADD ? CLATTN_BOOL8 : mask->type ? mask->type : CLATTN_FLOAT32;
  const char *axes = mask->axes ? mask->axes : "bhts";
  test_shape full = {.rank = 4};
  int first = 3; /* the first dimension that is not left out */
  for (int d = 4; d-- > 0;) {
    full.extent[d] = strchr(axes, "bhts"[d]) ? call->extent[d] : 1;
    if (strchr(axes, "bhts"[d])) first = d;
  }
  const size_t count = test_shape_count(&full);
  double *values = call->mask_values[m] = test_alloc(count, sizeof *values);
  for (size_t i = 0; i < count; i++)
    values[i] = mask->values ? mask->values[i] : type_round(type, draw_mask_value(mask, rng));

  test_shape shape = full;
  if (mask->form == TEST_SHORT) {
    shape.rank = 4 - first;
    memmove(shape.extent, shape.extent + first, (size_t)shape.rank * sizeof *shape.extent);
  }
  call->mask_buffers[m] = guarded_create(call->context, type, &shape, &mask->layout, values);
  call->masks[m] = (clattn_mask){.kind = mask->kind, .values = call->mask_buffers[m].view};
  for (int d = 0; d < 4 && mask->form == TEST_STRIDE_0; d++) {
    if (strchr(axes, "bhts"[d])) continue;
    call->masks[m].values.shape[d] = call->extent[d];
    call->masks[m].values.stride[d] = 0;
  }
  call->ref_masks[m] = (ref_mask){.kind = mask->kind, .values = values};
  memcpy(call->ref_masks[m].shape, full.extent, sizeof full.extent);
}

/* ----------------------------------------------------------------------------------------------------------- call */

static void build_results(test_call *call, clattn_type type, const test_shape *output_shape) {
  const test_request *request = call->request;
  const size_t *e = call->extent;
  const test_shape rows = {3, {e[0], e[1], e[2]}};
  const test_shape mean = {3, {e[0], e[2], e[4]}}, per_head = {4, {e[0], e[1], e[2], e[4]}};
  if (!request->no_output)
    call->output = guarded_create(call->context, type, output_shape, &request->output_layout, NULL);
  if (request->weights != TEST_NO_WEIGHTS)
    call->weights = guarded_create(call->context, call->arithmetic, request->weights == TEST_MEAN ? &mean : &per_head,
                                   &request->weights_layout, NULL);
  if (request->log_sum_exp)
    call->log_sum_exp = guarded_create(call->context, call->arithmetic, &rows, &request->log_sum_exp_layout, NULL);
}

/* A lengths array that does not lie densely. */
static test_guarded create_lengths(const test_call *call, const int64_t *lengths) {
  const clattn_type type = call->request->lengths_type ? call->request->lengths_type : CLATTN_INT32;
  const test_shape shape = {1, {call->extent[0]}};
  const test_layout odd = {.pad = {2}, .offset = 1};
  double *values = test_alloc(call->extent[0], sizeof *values);
  for (size_t b = 0; b < call->extent[0]; b++) values[b] = (double)lengths[b];
  const test_guarded guarded = guarded_create(call->context, type, &shape, &odd, values);
  free(values);
  return guarded;
}

/* Slopes of both signs, for the device as the request has them, for the reference [B,H]. */
static void build_slopes(test_call *call, test_rng *rng) {
  const test_request *request = call->request;
  const size_t B = call->extent[0], H = call->extent[1];
  const int per_entry = request->slopes == TEST_SLOPES_PER_ENTRY;
  const clattn_type type = request->slopes_type ? request->slopes_type : CLATTN_FLOAT32;
  const test_layout odd = {.pad = {1, 2}, .offset = 3};
  const test_shape per_head_shape = {1, {H}}, per_entry_shape = {2, {B, H}};
  double *values = call->slope_values = test_alloc(B * H + H, sizeof *values);
  for (size_t i = 0; i < (per_entry ? B * H : H); i++)
    values[i] = type_round(type, request->slope_values ? request->slope_values[i] : 0.25 * rng_normal(rng));
  call->slopes = guarded_create(call->context, type, per_entry ? &per_entry_shape : &per_head_shape, &odd, values);
  for (size_t i = H; i < B * H && !per_entry; i++) values[i] = values[i % H];
}

void call_build(test_call *call, clattn_context *context, const test_request *request, const size_t extent[5],
                clattn_type arithmetic, clattn_type type, const test_shape *output_shape, test_rng *rng) {
  *call = (test_call){.context = context, .request = request, .arithmetic = arithmetic};
  memcpy(call->extent, extent, sizeof call->extent);
  while (call->mask_count < TEST_MAX_MASKS && request->masks[call->mask_count].kind != 0)
    build_mask(call, call->mask_count++, rng);
  build_results(call, type, output_shape);
  if (request->kv_lengths) call->lengths = create_lengths(call, request->kv_lengths);
  if (request->q_lengths) call->q_lengths = create_lengths(call, request->q_lengths);
  if (request->slopes != TEST_NO_SLOPES) build_slopes(call, rng);
}

void call_lend(test_call *call, const clattn_plan *plan) {
  cl_uint bits = 0;
  const cl_int error =
      clGetDeviceInfo(clattn_context_device(call->context), CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
  cr_assert_eq(error, CL_SUCCESS, "clGetDeviceInfo: %d", error);
  if (plan->scratch_bytes == 0) return;
  const size_t alignment = bits > 8 ? bits / 8 : 1;
  const test_shape shape = {1, {(size_t)plan->scratch_bytes}};
  test_layout layout = {0};
  test_guarded probe = guarded_create(call->context, CLATTN_BOOL8, &shape, &layout, NULL);
  layout.offset = (alignment - probe.view.offset % alignment) % alignment;
  guarded_release(&probe);
  call->scratch = guarded_create(call->context, CLATTN_BOOL8, &shape, &layout, NULL);
}

void call_release(test_call *call) {
  for (int m = 0; m < call->mask_count; m++) {
    free(call->mask_values[m]);
    guarded_release(&call->mask_buffers[m]);
  }
  free(call->slope_values);
  guarded_release(&call->slopes);
  guarded_release(&call->lengths);
  guarded_release(&call->q_lengths);
  guarded_release(&call->scratch);
  guarded_release(&call->output);
  guarded_release(&call->weights);
  guarded_release(&call->log_sum_exp);
}

clattn_options call_options(const test_call *call) {
  const test_request *request = call->request;
  clattn_options options;
  clattn_options_init(&options);
  options.scale = call_scale(call);
  options.masks = call->mask_count ? call->masks : NULL;
  options.mask_count = (size_t)call->mask_count;
  options.causal = request->causal;
  options.causal_offset = request->causal_offset;
  if (request->window.set) {
    options.window_left = request->window.left;
    options.window_right = request->window.right;
  }
  options.soft_cap = request->soft_cap;
  options.alibi_slopes = call->slopes.view.buffer ? &call->slopes.view : NULL;
  options.kv_lengths = request->kv_lengths ? &call->lengths.view : NULL;
  options.q_lengths = request->q_lengths ? &call->q_lengths.view : NULL;
  options.add_zero_key = request->zero_key;
  options.dropout = request->dropout;
  options.output_dropout = request->output_dropout;
  options.dropout_seed = request->dropout_seed;
  options.dropout_call = request->dropout_call;
  options.inference = request->inference;
  options.weights = call->weights.view.buffer ? &call->weights.view : NULL;
  options.log_sum_exp = call->log_sum_exp.view.buffer ? &call->log_sum_exp.view : NULL;
  options.compute = request->compute;
  options.scratch_limit = request->scratch_limit;
  if (call->scratch.view.buffer) {
    options.scratch = call->scratch.view.buffer;
    options.scratch_offset = call->scratch.view.offset;
    options.scratch_bytes = call->scratch.view.shape[0];
  }
  return options;
}

const clattn_tensor *call_output(const test_call *call) {
  return call->output.view.buffer ? &call->output.view : NULL;
}

double call_scale(const test_call *call) {
  return call->request->scale.set ? call->request->scale.value : CLATTN_SCALE_AUTO;
}

ref_rules call_reference_rules(const test_call *call) {
  const test_request *request = call->request;
  const ref_dropout none = {0};
  const ref_dropout dropout = {request->dropout, request->dropout_seed, request->dropout_call};
  const ref_dropout output_dropout = {request->output_dropout, request->dropout_seed, request->dropout_call};
  return (ref_rules){.soft_cap = request->soft_cap,
                     .alibi_slopes = call->slope_values,
                     .masks = call->ref_masks,
                     .mask_count = (size_t)call->mask_count,
                     .causal = request->causal,
                     .causal_offset = request->causal_offset,
                     .window_left = request->window.set ? request->window.left : -1,
                     .window_right = request->window.set ? request->window.right : -1,
                     .kv_lengths = request->kv_lengths,
                     .q_lengths = request->q_lengths,
                     .dropout = request->inference ? none : dropout,
                     .output_dropout = request->inference ? none : output_dropout};
}

ref_arithmetic call_arithmetic(const test_call *call) {
  return call->arithmetic == CLATTN_FLOAT64 ? ref_float64() : ref_float32();
}

double call_input_error(const test_call *call, clattn_type type) {
  return type == CLATTN_FLOAT64 && call->arithmetic == CLATTN_FLOAT32 ? ldexp(1, -24) : 0;
}

/* ------------------------------------------------------------------------------------------------------------ run */

/* Reads one result, and compares its bits with those of the run before, which are in *bits from the second run on. */
static int take_result(test_guarded *guarded, const char *what, double **values, size_t *count, void **bits,
                       test_line *line) {
  if (!guarded->view.buffer) return 1;
  const test_shape shape = guarded_shape(guarded);
  const size_t bytes = test_shape_count(&shape) * type_bytes(guarded->view.type);
  void *now = test_alloc(bytes, 1);
  *count = test_shape_count(&shape);
  if (!*values) *values = test_alloc(*count, sizeof **values);
  guarded_read(guarded, *values, now);
  int good = guarded_check(guarded, what, 0, line);
  if (*bits) good = good && compare_bits(what, *bits, now, bytes, line);
  free(*bits);
  *bits = now;
  return good;
}

static int inputs_unchanged(const test_call *call, test_line *line) {
  for (int m = 0; m < call->mask_count; m++)
    if (!guarded_check(&call->mask_buffers[m], "mask", 1, line)) return 0;
  return (!call->lengths.view.buffer || guarded_check(&call->lengths, "kv_lengths", 1, line)) &&
         (!call->q_lengths.view.buffer || guarded_check(&call->q_lengths, "q_lengths", 1, line)) &&
         (!call->slopes.view.buffer || guarded_check(&call->slopes, "alibi_slopes", 1, line)) &&
         (!call->scratch.view.buffer || guarded_check(&call->scratch, "scratch", 0, line));
}

int call_run(test_call *call, test_enqueue enqueue, const void *user, test_results *results, test_line *line) {
  const clattn_options options = call_options(call);
  void *bits[3] = {NULL, NULL, NULL};
  int good = 1;
  *results = (test_results){0};
  for (int run = 0; good && run < 2; run++) {
    if (call->output.view.buffer) guarded_reset(&call->output);
    if (call->weights.view.buffer) guarded_reset(&call->weights);
    if (call->log_sum_exp.view.buffer) guarded_reset(&call->log_sum_exp);
    clattn_status status = enqueue(user, call_output(call), &options);
    if (status == CLATTN_SUCCESS) status = clattn_finish(call->context);
    if (status != CLATTN_SUCCESS) {
      good = test_fail(line, "%s: %s", clattn_status_name(status), clattn_context_message(call->context));
      break;
    }
    good = take_result(&call->output, "output", &results->output, &results->output_count, &bits[0], line) &&
           take_result(&call->weights, "weights", &results->weights, &results->weights_count, &bits[1], line) &&
           take_result(&call->log_sum_exp, "log_sum_exp", &results->log_sum_exp, &results->log_sum_exp_count, &bits[2],
                       line) &&
           inputs_unchanged(call, line);
  }
  for (int i = 0; i < 3; i++) free(bits[i]);
  if (!good) results_release(results);
  return good;
}

int call_compare(const test_call *call, const test_results *results, const ref_attention_result *attention,
                 ref_array *output, test_line *line) {
  int good = 1;
  if (results->output) {
    if (call->output.view.type != call->arithmetic) ref_array_store(output, call->output.view.type);
    const test_shape shape = guarded_shape(&call->output);
    good = compare_arrays("output", results->output, &shape, output, &shape, line);
  }
  if (good && results->weights) {
    const test_shape shape = guarded_shape(&call->weights);
    good = compare_arrays("weights", results->weights, &shape,
                          shape.rank == 3 ? &attention->mean_weights : &attention->weights, &shape, line);
  }
  if (good && results->log_sum_exp) {
    const test_shape shape = guarded_shape(&call->log_sum_exp);
    good = compare_arrays("log_sum_exp", results->log_sum_exp, &shape, &attention->log_sum_exp, &shape, line);
  }
  return good;
}

void request_text(const test_request *request, char *text, size_t size) {
  const char *weights[] = {"none", "per_head", "mean"};
  int used = snprintf(text, size, "compute=%d weights=%s lse=%d", (int)request->compute, weights[request->weights],
                      request->log_sum_exp);
  if (request->scale.set) used += snprintf(text + used, size - (size_t)used, " scale=%g", request->scale.value);
  if (request->causal)
    used += snprintf(text + used, size - (size_t)used, " causal=%d%+lld", (int)request->causal,
                     (long long)request->causal_offset);
  if (request->window.set)
    used += snprintf(text + used, size - (size_t)used, " window=%lld,%lld", (long long)request->window.left,
                     (long long)request->window.right);
  if (request->kv_lengths)
    used += snprintf(text + used, size - (size_t)used, " lengths=%lld,..", (long long)request->kv_lengths[0]);
  if (request->q_lengths)
    used += snprintf(text + used, size - (size_t)used, " q_lengths=%lld,..", (long long)request->q_lengths[0]);
  if (request->soft_cap > 0) used += snprintf(text + used, size - (size_t)used, " cap=%g", request->soft_cap);
  if (request->slopes) used += snprintf(text + used, size - (size_t)used, " slopes=%d", (int)request->slopes);
  if (request->zero_key) used += snprintf(text + used, size - (size_t)used, " zero_key");
  if (request->dropout > 0 || request->output_dropout > 0)
    used += snprintf(text + used, size - (size_t)used, " dropout=%g,%g%s", request->dropout, request->output_dropout,
                     request->inference ? " inference" : "");
  if (request->lends) used += snprintf(text + used, size - (size_t)used, " lends");
  if (request->scratch_limit)
    used += snprintf(text + used, size - (size_t)used, " scratch=%llu", (unsigned long long)request->scratch_limit);
  for (int m = 0; m < TEST_MAX_MASKS && request->masks[m].kind != 0; m++) {
    const char *kinds[] = {"", "block", "keep", "add"};
    const test_mask *mask = &request->masks[m];
    used += snprintf(text + used, size - (size_t)used, " %s:%s", kinds[mask->kind], mask->axes ? mask->axes : "bhts");
  }
}
