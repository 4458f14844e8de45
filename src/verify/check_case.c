/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/check_case.h"

#include <math.h>
#include <string.h>

#include "core/cache.h"
#include "layer/philox.h"

/* Elements between and behind what a view names: a kernel that writes there is found. */
enum { GAP = 3, GUARD = 32 };

size_t check_columns(const check_case *check) {
  return check->row.kv_len + (size_t)(check->row.bias_kv != 0) + (size_t)(check->row.zero_key != 0);
}

/* ---------------------------------------------------------------------------------------------------------- extents */

static void fill_extents(check_row *row) {
  if (row->batch == 0) row->batch = 2;
  if (row->heads == 0) row->heads = 3;
  if (row->kv_heads == 0) row->kv_heads = row->heads;
  if (row->q_len == 0) row->q_len = 5;
  if (row->kv_len == 0) row->kv_len = 131;
  if (row->head_dim == 0) row->head_dim = 33;
  if (row->value_dim == 0) row->value_dim = row->head_dim;
  if (row->kdim == 0) row->kdim = row->embed;
  if (row->vdim == 0) row->vdim = row->embed;
  if (row->out_dim == 0) row->out_dim = row->embed;
}

static void fill_config(check_case *check) {
  const check_row *row = &check->row;
  clattn_mha_config_init(&check->config);
  check->config.embed_dim = row->embed;
  check->config.heads = row->heads;
  check->config.kv_heads = row->kv_heads;
  check->config.head_dim = row->head_dim;
  check->config.value_head_dim = row->value_dim;
  check->config.kdim = row->kdim;
  check->config.vdim = row->vdim;
  check->config.out_dim = row->out_dim;
  check->config.bias_kv = row->bias_kv;
}

static void fill_options(check_case *check) {
  const check_row *row = &check->row;
  clattn_options *options = &check->options;
  clattn_options_init(options);
  if (row->scale != 0) options->scale = row->scale;
  while (options->mask_count < CHECK_MASKS && row->masks[options->mask_count].kind != 0) options->mask_count++;
  options->causal = row->causal;
  options->causal_offset = row->causal_offset;
  if (row->window) {
    options->window_left = row->window_left;
    options->window_right = row->window_right;
  }
  options->soft_cap = row->soft_cap;
  options->dropout = row->dropout;
  options->output_dropout = row->output_dropout;
  options->dropout_seed = row->dropout_seed;
  options->dropout_call = row->dropout_call;
  options->add_zero_key = row->zero_key;
  options->compute = check->compute;
  options->scratch_limit = row->scratch_limit * (clattn_type_size(check->compute) / clattn_type_size(CLATTN_FLOAT32));
}

/* ----------------------------------------------------------------------------------------------------------- arrays */

static int add_array(check_case *check, int place, clattn_type type, int rank, size_t a, size_t b, size_t c, size_t d) {
  check_array *array = &check->arrays[place];
  const size_t shape[4] = {a, b, c, d};
  size_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  array->type = type != 0 ? type : check->compute;
  array->view = clattn_tensor_view(NULL, 0, array->type, rank, shape);
  array->span = count + GUARD;
  return numbers_create(&array->data, count);
}

/* Gives query, key, value and output the memory that the row asks for. */
static void set_layout(check_array *array, check_layout layout) {
  clattn_tensor *view = &array->view;
  if (layout == LAYOUT_SEQUENCE_FIRST) { /* [B,T,E] in [T,B,E] memory */
    view->stride[0] = view->shape[2];
    view->stride[1] = view->shape[0] * view->shape[2];
  }
  if (layout != LAYOUT_ROWS) return;
  view->offset = 5;
  if (view->rank == 4) { /* [B,H,T,D] in [B,T,H,D] memory */
    view->stride[1] = view->shape[3];
    view->stride[2] = view->shape[1] * view->shape[3] + GAP;
    view->stride[0] = view->shape[2] * view->stride[2];
  }
  array->span = view->offset + view->shape[0] * view->stride[0] + GUARD;
}

static int add_inputs(check_case *check) {
  const check_row *r = &check->row;
  int good = 1;
  if (r->embed > 0)
    good = add_array(check, AT_QUERY, r->types[0], 3, r->batch, r->q_len, r->embed, 1) &&
           add_array(check, AT_KEY, r->types[1], 3, r->batch, r->kv_len, r->kdim, 1) &&
           add_array(check, AT_VALUE, r->types[2], 3, r->batch, r->kv_len, r->vdim, 1) &&
           add_array(check, AT_OUTPUT, r->types[3], 3, r->batch, r->q_len, r->out_dim, 1);
  else
    good = add_array(check, AT_QUERY, r->types[0], 4, r->batch, r->heads, r->q_len, r->head_dim) &&
           add_array(check, AT_KEY, r->types[1], 4, r->batch, r->kv_heads, r->kv_len, r->head_dim) &&
           add_array(check, AT_VALUE, r->types[2], 4, r->batch, r->kv_heads, r->kv_len, r->value_dim) &&
           add_array(check, AT_OUTPUT, r->types[3], 4, r->batch, r->heads, r->q_len, r->value_dim);
  for (int place = AT_QUERY; good && place <= AT_OUTPUT; place++) set_layout(&check->arrays[place], r->layout);
  return good;
}

static int add_parameters(check_case *check) {
  const check_row *r = &check->row;
  const size_t q = r->heads * r->head_dim, k = r->kv_heads * r->head_dim, v = r->kv_heads * r->value_dim;
  const size_t rows[CLATTN_PARAMETER_COUNT] = {q, k, v, r->out_dim, q, k, v, r->out_dim, k, v};
  const size_t columns[4] = {r->embed, r->kdim, r->vdim, r->heads * r->value_dim};
  for (int which = 0; r->embed > 0 && which < CLATTN_PARAMETER_COUNT; which++) {
    if (which >= CLATTN_BIAS_K && !r->bias_kv) continue;
    const int bias = which >= CLATTN_BQ;
    if (!add_array(check, AT_PARAMETERS + which, 0, bias ? 1 : 2, rows[which], bias ? 1 : columns[which], 1, 1))
      return 0;
  }
  return 1;
}

static int add_options(check_case *check) {
  const check_row *r = &check->row;
  const size_t columns = check_columns(check), b = r->batch;
  int good = 1;
  for (size_t m = 0; good && m < check->options.mask_count; m++) {
    const check_mask *mask = &r->masks[m];
    good = add_array(check, AT_MASKS + (int)m, mask->kind == CLATTN_MASK_ADD ? mask->type : CLATTN_BOOL8, 4,
                     mask->axes & AXIS_B ? b : 1, mask->axes & AXIS_H ? r->heads : 1,
                     mask->axes & AXIS_T ? r->q_len : 1, mask->axes & AXIS_S ? r->kv_len : 1);
  }
  if (r->slopes_per_entry) good = good && add_array(check, AT_SLOPES, r->slopes, 2, b, r->heads, 1, 1);
  if (r->slopes != 0 && !r->slopes_per_entry)
    good = good && add_array(check, AT_SLOPES, r->slopes, 1, r->heads, 1, 1, 1);
  if (r->kv_lengths != 0) good = good && add_array(check, AT_KV_LENGTHS, r->kv_lengths, 1, b, 1, 1, 1);
  if (r->q_lengths != 0) good = good && add_array(check, AT_Q_LENGTHS, r->q_lengths, 1, b, 1, 1, 1);
  if (r->weights == 4) good = good && add_array(check, AT_WEIGHTS, 0, 4, b, r->heads, r->q_len, columns);
  if (r->weights == 3) good = good && add_array(check, AT_WEIGHTS, 0, 3, b, r->q_len, columns, 1);
  if (r->log_sum_exp) good = good && add_array(check, AT_LOG_SUM_EXP, 0, 3, b, r->heads, r->q_len, 1);
  return good;
}

/* ----------------------------------------------------------------------------------------------------------- values */

/* Values in [-1, 1) * scale, from the row's name, the place and the index alone, as the array's type holds them. */
static void draw(check_case *check, int place, double scale) {
  check_array *array = &check->arrays[place];
  const char *name = check->row.names[0];
  const uint64_t seed = cache_hash(CACHE_HASH_START, name, strlen(name));
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t words[4] = {0};
  for (size_t at = 0; at < array->data.count; at++) {
    const uint32_t counter[4] = {(uint32_t)(at / 4), (uint32_t)place, 0, 0};
    if (at % 4 == 0) philox4x32_10(counter, key, words);
    array->data.value[at] = number_nearest(array->type, ((double)words[at % 4] / 2147483648.0 - 1) * scale);
  }
}

/* A third of a mask blocks; where it speaks of single queries it blocks all keys of the second. */
static void fill_mask(check_case *check, int m) {
  static const double truths[4] = {1, 2, 64, 255}; /* any byte but 0 is true */
  const check_mask *mask = &check->row.masks[m];
  check_array *array = &check->arrays[AT_MASKS + m];
  const clattn_type type = array->type;
  array->type = CLATTN_FLOAT32; /* truths are made from fractions */
  draw(check, AT_MASKS + m, 3);
  array->type = type;
  for (size_t at = 0; at < array->data.count; at++) {
    const double u = array->data.value[at], truth = truths[at % 4];
    const size_t i = at / array->view.shape[3] % array->view.shape[2];
    const int blocks = u < -1 || i == 1;
    array->data.value[at] = mask->kind == CLATTN_MASK_BLOCK  ? (blocks ? truth : 0)
                            : mask->kind == CLATTN_MASK_KEEP ? (blocks ? 0 : truth)
                            : blocks                         ? -HUGE_VAL
                                                             : number_nearest(type, u);
  }
}

/* Entries with no key, with half of them and with more than there are; the other way round for queries. */
static void fill_lengths(check_case *check) {
  const double s = (double)check->row.kv_len;
  const double keys[3] = {0, floor(s / 2), s + 5}, queries[3] = {(double)check->row.q_len + 3, 2, -1};
  for (size_t b = 0; b < check->arrays[AT_KV_LENGTHS].data.count; b++)
    check->arrays[AT_KV_LENGTHS].data.value[b] = keys[b % 3];
  for (size_t b = 0; b < check->arrays[AT_Q_LENGTHS].data.count; b++)
    check->arrays[AT_Q_LENGTHS].data.value[b] = queries[b % 3];
}

/* Keys and values that may never be read. */
static void spoil_padding(check_case *check, int place) {
  const numbers *lengths = &check->arrays[AT_KV_LENGTHS].data;
  check_array *array = &check->arrays[place];
  const clattn_tensor *view = &array->view;
  const size_t width = view->shape[view->rank - 1], length = view->shape[view->rank - 2];
  for (size_t at = 0; lengths->count > 0 && at < array->data.count; at++) {
    const size_t j = at / width % length, b = at / (array->data.count / view->shape[0]);
    if ((double)j >= lengths->value[b]) array->data.value[at] = NAN;
  }
}

static void fill_at_random(check_case *check) {
  const double spread = check->row.embed > 0 ? 1 : 2; /* projections of a layer spread its scores by themselves */
  for (int place = 0; place < AT_COUNT; place++) {
    if (place == AT_OUTPUT || place == AT_WEIGHTS || place == AT_LOG_SUM_EXP) continue;
    draw(check, place, place == AT_QUERY || place == AT_KEY ? spread : 1);
  }
  numbers *slopes = &check->arrays[AT_SLOPES].data;
  for (size_t at = 0; at < slopes->count; at++) slopes->value[at] = ldexp(1, -2 - (int)(at % 5));
  for (size_t m = 0; m < check->options.mask_count; m++) fill_mask(check, (int)m);
  fill_lengths(check);
  spoil_padding(check, AT_KEY);
  spoil_padding(check, AT_VALUE);
}

/* ---------------------------------------------------------------------------------------------------------- results */

static void take(check_array *array, numbers *from) {
  if (array->type == 0) return;
  numbers old = array->data;
  array->data = *from;
  *from = old;
}

int check_case_ask_reference(check_case *check) {
  reference_mask masks[CHECK_MASKS];
  reference_result result;
  const check_array *a = check->arrays;
  const check_row *row = &check->row;
  for (size_t m = 0; m < check->options.mask_count; m++) {
    masks[m] = (reference_mask){.kind = row->masks[m].kind, .values = a[AT_MASKS + m].data.value};
    memcpy(masks[m].shape, a[AT_MASKS + m].view.shape, sizeof masks[m].shape);
  }
  reference_layer layer = {.call = {.batch = row->batch,
                                    .heads = row->heads,
                                    .kv_heads = row->kv_heads,
                                    .q_len = row->q_len,
                                    .kv_len = row->kv_len,
                                    .head_dim = row->head_dim,
                                    .value_dim = row->value_dim,
                                    .compute = check->compute,
                                    .options = &check->options,
                                    .masks = masks,
                                    .slopes = a[AT_SLOPES].data.value,
                                    .slopes_per_entry = row->slopes_per_entry,
                                    .kv_lengths = a[AT_KV_LENGTHS].data.value,
                                    .q_lengths = a[AT_Q_LENGTHS].data.value,
                                    .query = a[AT_QUERY].data,
                                    .key = a[AT_KEY].data,
                                    .value = a[AT_VALUE].data},
                           .config = check->config,
                           .input = {a[AT_QUERY].data, a[AT_KEY].data, a[AT_VALUE].data}};
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) layer.parameter[which] = a[AT_PARAMETERS + which].data;
  if (!(row->embed > 0 ? reference_forward(&layer, &result) : reference_attend(&layer.call, &result))) return 0;
  take(&check->arrays[AT_OUTPUT], &result.output);
  take(&check->arrays[AT_WEIGHTS], row->weights == 3 ? &result.mean : &result.weights);
  take(&check->arrays[AT_LOG_SUM_EXP], &result.log_sum_exp);
  reference_result_free(&result);
  return 1;
}

int check_case_create(check_case *check, const check_row *row, clattn_type compute) {
  *check = (check_case){.row = *row, .compute = compute};
  fill_extents(&check->row);
  fill_config(check);
  fill_options(check);
  if (!add_inputs(check) || !add_parameters(check) || !add_options(check)) return 0;
  fill_at_random(check);
  if (row->fill == NULL) return check_case_ask_reference(check);
  row->fill(check);
  return 1;
}

void check_case_free(check_case *check) {
  for (int place = 0; place < AT_COUNT; place++) numbers_free(&check->arrays[place].data);
}
