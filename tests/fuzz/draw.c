/* SPDX-License-Identifier: Apache-2.0 */
#include "draw.h"

#include <string.h>

/* Two streams of random numbers: one for the family, one for the case. */
typedef struct drawing {
  test_rng family, own;
  draw_limits limits;
  drawn_case *out;
} drawing;

static int chance(test_rng *rng, double probability) {
  return rng_uniform(rng) < probability;
}

/* In [low, high]. */
static int64_t between(test_rng *rng, int64_t low, int64_t high) {
  return low + (int64_t)rng_below(rng, (size_t)(high - low + 1));
}

#define PICK(rng, ...)                                                                                                 \
  ((const double[]){__VA_ARGS__}[rng_below(rng, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))])

/* ------------------------------------------------------------------------------------------------------------ sizes */

/* Small, prime, a power of two and its neighbours: where kernels have their edges. */
static size_t draw_length(drawing *d) {
  static const size_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 47, 63, 64, 65, 97, 127, 128, 129, 257};
  size_t count = 0;
  while (count < sizeof lengths / sizeof *lengths && lengths[count] <= d->limits.length) count++;
  return lengths[rng_below(&d->own, count)];
}

static size_t draw_head_dim(drawing *d) {
  static const size_t sizes[] = {1, 2, 3, 4, 5, 8, 11, 16, 17, 24, 32, 33, 64};
  const size_t count = d->limits.length < 32 ? 8 : sizeof sizes / sizeof *sizes;
  return sizes[rng_below(&d->own, count)];
}

/* Query heads and the key heads that divide them. */
static void draw_heads(drawing *d, size_t *heads, size_t *kv_heads) {
  *heads = 1 + rng_below(&d->own, DRAW_MAX_HEADS);
  do *kv_heads = 1 + rng_below(&d->own, *heads);
  while (*heads % *kv_heads != 0);
}

/* One in twelve cases lacks a batch entry, a query or a key. */
static int draw_empty(drawing *d, size_t *batch, size_t *q_len, size_t *kv_len) {
  size_t *extents[] = {batch, q_len, kv_len};
  if (!chance(&d->own, 1.0 / 12)) return 0;
  *extents[rng_below(&d->own, 3)] = 0;
  return 1;
}

/* ---------------------------------------------------------------------------------------------------------- layouts */

static const char *const orders3[] = {"012", "021", "102", "120", "201", "210"};
static const char *const orders4[] = {"0123", "0132", "0213", "0231", "0312", "0321", "1023", "1032",
                                      "1203", "1230", "1302", "1320", "2013", "2031", "2103", "2130",
                                      "2301", "2310", "3012", "3021", "3102", "3120", "3201", "3210"};

/* Half of them row-major; others in any order, with gaps, at an odd offset. */
static test_layout draw_layout(drawing *d, int rank) {
  test_layout layout = {0};
  if (chance(&d->own, 0.4)) return layout;
  layout.offset = rng_below(&d->own, 40);
  if (chance(&d->own, 0.6) && rank == 3) layout.order = orders3[rng_below(&d->own, 6)];
  if (chance(&d->own, 0.6) && rank == 4) layout.order = orders4[rng_below(&d->own, 24)];
  for (int i = 0; i < rank; i++)
    if (chance(&d->own, 0.2)) layout.pad[i] = 1 + rng_below(&d->own, 5);
  return layout;
}

/* An input may repeat along a dimension. Not where rows past a length are to be NaN: those of one entry would be all
 * entries'. */
static test_layout draw_input_layout(drawing *d, int rank, const int64_t *lengths) {
  test_layout layout = draw_layout(d, rank);
  if (!lengths && chance(&d->own, 0.15)) layout.repeat = 1u << rng_below(&d->own, (size_t)rank);
  return layout;
}

/* ------------------------------------------------------------------------------------------------------------ types */

static clattn_type draw_type(test_rng *rng, int fp64) {
  static const clattn_type types[] = {CLATTN_FLOAT32, CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16, CLATTN_FLOAT64};
  return types[rng_below(rng, fp64 ? 5 : 4)];
}

/* Inputs and output: float64 all together, others in any mix, half of the time all alike. */
static void draw_types(drawing *d, clattn_type types[4]) {
  types[0] = draw_type(&d->family, d->limits.fp64);
  const int mixed = types[0] != CLATTN_FLOAT64 && chance(&d->family, 0.5);
  for (int i = 1; i < 4; i++) types[i] = mixed ? draw_type(&d->family, 0) : types[0];
}

static clattn_type draw_compute(drawing *d) {
  if (!d->limits.fp64 || chance(&d->family, 0.7)) return (clattn_type)0;
  return chance(&d->family, 0.5) ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
}

/* ---------------------------------------------------------------------------------------------------------- request */

static void draw_mask(drawing *d, test_mask *mask) {
  static const char *const axes[] = {"",   "b",  "h",  "t",   "s",   "bh",  "bt",  "bs",
                                     "ht", "hs", "ts", "bht", "bhs", "bts", "hts", "bhts"};
  mask->kind = (clattn_mask_kind)between(&d->family, CLATTN_MASK_BLOCK, CLATTN_MASK_ADD);
  mask->type = draw_type(&d->family, d->limits.fp64);
  mask->axes = axes[rng_below(&d->own, 16)];
  mask->share = PICK(&d->own, 0, 0.1, 0.3, 0.9);
  mask->spread = PICK(&d->own, 0.1, 1, 20);
  const size_t form = rng_below(&d->own, 3);
  if (form == 0) mask->form = TEST_SHORT;
  if (form == 1) mask->form = TEST_FULL_RANK;
  if (form == 2) mask->form = TEST_STRIDE_0;
  if (mask->form == TEST_FULL_RANK) mask->layout = draw_layout(d, 4);
  if (mask->form == TEST_SHORT && chance(&d->own, 0.3)) mask->layout = (test_layout){.pad = {3}, .offset = 7};
}

static void draw_rules(drawing *d, test_request *request, size_t q_len, size_t kv_len) {
  const int64_t reach = (int64_t)(q_len > kv_len ? q_len : kv_len) + 2;
  if (chance(&d->own, 0.5)) request->causal = (clattn_causal)between(&d->own, CLATTN_CAUSAL_NONE, CLATTN_CAUSAL_OFFSET);
  if (request->causal == CLATTN_CAUSAL_OFFSET) request->causal_offset = between(&d->own, -reach, reach);
  if (chance(&d->own, 0.3)) {
    request->window.set = 1;
    request->window.left = between(&d->own, -1, reach / 2);
    request->window.right = between(&d->own, -1, reach / 2);
  }
  if (chance(&d->own, 0.4)) {
    request->scale.set = 1;
    request->scale.value = PICK(&d->own, 0, 1, 0.25, -0.3, 1e-3, 2.5);
  }
}

/* Lengths within reach, all of them, none, and beyond both ends. */
static const int64_t *draw_lengths(drawing *d, int64_t *lengths, size_t limit) {
  for (int b = 0; b < DRAW_MAX_BATCH; b++) {
    lengths[b] = between(&d->own, 0, (int64_t)limit);
    if (chance(&d->own, 0.2)) lengths[b] = (int64_t)limit + (int64_t)PICK(&d->own, 0, 1, 1000);
    if (chance(&d->own, 0.1)) lengths[b] = (int64_t)PICK(&d->own, 0, -1, -1000);
  }
  return lengths;
}

static void draw_modifiers(drawing *d, test_request *request) {
  if (chance(&d->family, 0.25)) request->soft_cap = PICK(&d->own, 0.3, 2, 30);
  if (chance(&d->family, 0.3)) {
    request->slopes = chance(&d->own, 0.5) ? TEST_SLOPES_PER_HEAD : TEST_SLOPES_PER_ENTRY;
    request->slopes_type = draw_type(&d->family, d->limits.fp64);
  }
  request->zero_key = chance(&d->family, 0.25);
  if (chance(&d->family, 0.3)) {
    request->dropout = PICK(&d->own, 0.1, 0.5, 0.9, 1e-12);
    request->inference = chance(&d->family, 0.1);
  }
  request->dropout_seed = rng_next(&d->own);
  request->dropout_call = (uint32_t)rng_next(&d->own);
}

static void draw_results(drawing *d, test_request *request, int rank) {
  request->weights = (test_weights)rng_below(&d->family, 3);
  request->log_sum_exp = chance(&d->family, 0.3);
  request->no_output = (request->weights != TEST_NO_WEIGHTS || request->log_sum_exp) && chance(&d->own, 0.1);
  request->output_layout = draw_layout(d, rank);
  request->weights_layout = draw_layout(d, request->weights == TEST_MEAN ? 3 : 4);
  request->log_sum_exp_layout = draw_layout(d, 3);
}

static void draw_request(drawing *d, test_request *request, size_t q_len, size_t kv_len, int output_rank) {
  d->out->request = request;
  size_t masks = chance(&d->family, 0.5) ? 0 : 1 + rng_below(&d->family, 3);
  if (chance(&d->family, 0.08)) masks = 4 + rng_below(&d->family, 6);
  for (size_t m = 0; m < masks; m++) draw_mask(d, &request->masks[m]);
  draw_rules(d, request, q_len, kv_len);
  draw_modifiers(d, request);
  const int counts_keys = chance(&d->family, 0.3), counts_queries = chance(&d->family, 0.25);
  request->lengths_type = chance(&d->family, 0.5) ? CLATTN_INT32 : CLATTN_INT64;
  if (counts_keys) request->kv_lengths = draw_lengths(d, d->out->kv_lengths, kv_len);
  if (counts_queries) request->q_lengths = draw_lengths(d, d->out->q_lengths, q_len);
  draw_results(d, request, output_rank);
  request->lends = chance(&d->own, 0.2);
  d->out->is_sliced = chance(&d->own, 0.25);
}

/* -------------------------------------------------------------------------------------------------------- the cases */

static void draw_attention(drawing *d, attention_case *c) {
  clattn_type types[4];
  draw_types(d, types);
  c->type = types[0];
  c->key_type = types[1];
  c->value_type = types[2];
  c->output_type = types[3];
  c->request.compute = draw_compute(d);
  c->batch = 1 + rng_below(&d->own, DRAW_MAX_BATCH);
  draw_heads(d, &c->heads, &c->kv_heads);
  c->q_len = draw_length(d);
  c->kv_len = draw_length(d);
  c->head_dim = draw_head_dim(d);
  c->value_head_dim = chance(&d->own, 0.6) ? c->head_dim : draw_head_dim(d);
  c->empty = draw_empty(d, &c->batch, &c->q_len, &c->kv_len);
  c->seed = rng_next(&d->own);
  c->spread = PICK(&d->own, 1, 1, 1, 0.05, 6);
  draw_request(d, &c->request, c->q_len, c->kv_len, 4);
  c->query_layout = draw_input_layout(d, 4, c->request.q_lengths);
  c->key_layout = draw_input_layout(d, 4, c->request.kv_lengths);
  c->value_layout = draw_input_layout(d, 4, c->request.kv_lengths);
}

static void draw_widths(drawing *d, layer_case *c) {
  clattn_mha_config *f = &c->config;
  draw_heads(d, &f->heads, &f->kv_heads);
  f->head_dim = draw_head_dim(d);
  if (chance(&d->own, 0.3)) f->value_head_dim = draw_head_dim(d);
  f->embed_dim = chance(&d->own, 0.5) ? f->heads * f->head_dim : 1 + rng_below(&d->own, 40);
  if (chance(&d->own, 0.3)) f->out_dim = 1 + rng_below(&d->own, 40);
  if (c->inputs != TEST_SELF && chance(&d->own, 0.4)) f->kdim = 1 + rng_below(&d->own, 40);
  f->vdim = f->kdim;
  if (c->inputs == TEST_APART && chance(&d->own, 0.4)) f->vdim = 1 + rng_below(&d->own, 40);
  f->bias_kv = chance(&d->family, 0.3);
  c->no_bias = chance(&d->family, 0.3);
}

static void draw_layer(drawing *d, layer_case *c) {
  clattn_type types[4];
  draw_types(d, types);
  c->type = types[0];
  c->key_type = types[1];
  c->value_type = types[2];
  c->output_type = types[3];
  c->parameter_type = draw_type(&d->family, d->limits.fp64);
  c->compute = draw_compute(d);
  const size_t inputs = rng_below(&d->own, 3);
  c->inputs = inputs == 0 ? TEST_SELF : inputs == 1 ? TEST_KEY_IS_VALUE : TEST_APART;
  draw_widths(d, c);
  c->sequence_first = chance(&d->own, 0.3);
  c->batch = 1 + rng_below(&d->own, DRAW_MAX_BATCH);
  c->q_len = draw_length(d);
  c->kv_len = draw_length(d);
  c->empty = draw_empty(d, &c->batch, &c->q_len, &c->kv_len);
  if (c->inputs == TEST_SELF) c->kv_len = c->q_len;
  c->seed = rng_next(&d->own);
  c->spread = PICK(&d->own, 1, 1, 0.05, 3);
  draw_request(d, &c->request, c->q_len, c->kv_len, 3);
  if (chance(&d->family, 0.25)) c->request.output_dropout = PICK(&d->own, 0.1, 0.5, 0.9);
  c->query_layout = draw_input_layout(d, 3, c->request.q_lengths);
  c->key_layout = draw_input_layout(d, 3, c->request.kv_lengths);
  c->value_layout = draw_input_layout(d, 3, c->request.kv_lengths);
}

/* A state that depends on both numbers in all bits. */
static test_rng stream(uint64_t seed, uint64_t number) {
  test_rng rng = {seed};
  rng.state = rng_next(&rng) ^ number;
  (void)rng_next(&rng);
  return rng;
}

void draw_case(uint64_t seed, uint64_t number, draw_limits limits, drawn_case *drawn) {
  drawing d = {stream(seed, number / DRAW_FAMILY), stream(~seed, number), limits, drawn};
  memset(drawn, 0, sizeof *drawn);
  drawn->is_layer = chance(&d.family, 0.4);
  if (drawn->is_layer)
    draw_layer(&d, &drawn->layer);
  else
    draw_attention(&d, &drawn->attention);
}

static clattn_status plan_case(clattn_context *context, const drawn_case *drawn, clattn_plan *plan) {
  return drawn->is_layer ? layer_case_plan(context, &drawn->layer, plan)
                         : attention_case_plan(context, &drawn->attention, plan);
}

uint64_t draw_scratch_limit(clattn_context *context, drawn_case *drawn) {
  clattn_plan plan;
  const uint64_t before = drawn->request->scratch_limit;
  uint64_t found = 0, limit = 0;
  if (plan_case(context, drawn, &plan) == CLATTN_SUCCESS && plan.scratch_bytes > 1) {
    const uint64_t wanted = plan.scratch_bytes;
    /* From an eighth on, half as much again until the call can do with it. */
    for (limit = wanted / 8 + 1; found == 0 && limit < wanted; limit += limit / 2 + 1) {
      drawn->request->scratch_limit = limit;
      if (plan_case(context, drawn, &plan) == CLATTN_SUCCESS) found = limit;
    }
  }
  drawn->request->scratch_limit = before;
  return found;
}
