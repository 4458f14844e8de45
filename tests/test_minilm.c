/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer 0 of all-MiniLM-L6-v2 on four real sentences: loaded from its own file under its own names, run, and compared
 * with outputs and weights that numpy computed in float64 (tests/data/minilm). */
#include "support/dump.h"
#include "support/guarded.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 12, WIDTH = 384 };

typedef struct minilm {
  test_dump hidden, key_keep, out, weights;
  clattn_parameters *parameters;
  size_t batch, len;
} minilm;

static void minilm_load(minilm *m) {
  char path[1024], message[512];
  m->hidden = dump_load("minilm", "hidden", 0);
  m->key_keep = dump_load("minilm", "key_keep", 0);
  m->out = dump_load("minilm", "layer0_out", 0);
  m->weights = dump_load("minilm", "layer0_weights", 0);
  m->batch = m->hidden.shape.extent[0];
  m->len = m->hidden.shape.extent[1];
  cr_assert_eq(m->hidden.shape.extent[2], WIDTH);
  data_path(path, "minilm", "minilm_layer0.safetensors");
  const clattn_status status = clattn_parameters_load(path, "encoder.layer.0.attention.", CLATTN_NAMING_AUTO, HEADS, 0,
                                                      &m->parameters, message, sizeof message);
  cr_assert_eq(status, CLATTN_SUCCESS, "%s", message);
}

static void minilm_release(minilm *m) {
  dump_release(&m->hidden);
  dump_release(&m->key_keep);
  dump_release(&m->out);
  dump_release(&m->weights);
  clattn_parameters_destroy(&m->parameters);
}

/* The scalar reference of the same layer, with float32 bounds. */
static ref_layer_result run_reference(const minilm *m) {
  ref_mask mask = {.kind = CLATTN_MASK_KEEP, .shape = {m->batch, 1, 1, m->len}, .values = m->key_keep.values};
  const ref_array hidden = ref_array_from(m->hidden.values, m->hidden.count, 0);
  ref_layer layer = {.batch = m->batch,
                     .q_len = m->len,
                     .kv_len = m->len,
                     .heads = HEADS,
                     .kv_heads = HEADS,
                     .head_dim = WIDTH / HEADS,
                     .value_head_dim = WIDTH / HEADS,
                     .embed_dim = WIDTH,
                     .kdim = WIDTH,
                     .vdim = WIDTH,
                     .out_dim = WIDTH,
                     .query = hidden,
                     .key = hidden,
                     .value = hidden,
                     .scale = CLATTN_SCALE_AUTO,
                     .rules = {.masks = &mask, .mask_count = 1, .window_left = -1, .window_right = -1},
                     .arithmetic = ref_float32()};
  for (int p = 0; p <= CLATTN_BO; p++) {
    const float *data = clattn_parameters_data(m->parameters, (clattn_parameter)p);
    layer.parameter[p] = ref_array_create(p < CLATTN_BQ ? WIDTH * WIDTH : WIDTH);
    for (size_t n = 0; n < layer.parameter[p].count; n++) layer.parameter[p].value[n] = (double)data[n];
  }
  const ref_layer_result result = ref_layer_run(&layer);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) ref_array_release(&layer.parameter[p]);
  ref_array_release(&layer.query);
  return result;
}

/* The dump is float64 rounded to float32: half a unit in the last place, beside what float64 arithmetic may do. */
static void expect_dump(const char *what, const test_dump *dump, const ref_array *reference) {
  ref_array want = ref_array_from(reference->value, reference->count, ldexp(1, -24));
  test_line line = {{0}};
  /* Float64 sums of this layer round 2^29 times less than the float32 bound allows. */
  for (size_t n = 0; n < want.count; n++) want.bound[n] += reference->bound[n] * ldexp(1, -28);
  cr_expect(compare_arrays(what, dump->values, &dump->shape, &want, &dump->shape, &line), "%s", line.text);
  ref_array_release(&want);
}

/* Runs the layer with a key mask of each kind, and with lengths; all say the same. */
static void run_layer(clattn_context *context, const minilm *m, int way, test_guarded *out, test_guarded *weights) {
  const test_shape shape = {3, {m->batch, m->len, WIDTH}}, keys = {4, {m->batch, 1, 1, m->len}},
                   counts = {1, {m->batch}};
  double *block = test_alloc(m->key_keep.count, sizeof *block), *add = test_alloc(m->key_keep.count, sizeof *add);
  double *lengths = test_alloc(m->batch, sizeof *lengths);
  for (size_t n = 0; n < m->key_keep.count; n++) {
    block[n] = 1 - m->key_keep.values[n];
    add[n] = block[n] > 0 ? -HUGE_VAL : 0;
    lengths[n / m->len] += m->key_keep.values[n]; /* padding is at the end */
  }
  test_guarded hidden = guarded_create(context, CLATTN_FLOAT32, &shape, NULL, m->hidden.values);
  test_guarded masks[3] = {guarded_create(context, CLATTN_BOOL8, &keys, NULL, m->key_keep.values),
                           guarded_create(context, CLATTN_BOOL8, &keys, NULL, block),
                           guarded_create(context, CLATTN_FLOAT32, &keys, NULL, add)};
  test_guarded count = guarded_create(context, CLATTN_INT32, &counts, NULL, lengths);
  const clattn_mask_kind kinds[3] = {CLATTN_MASK_KEEP, CLATTN_MASK_BLOCK, CLATTN_MASK_ADD};
  const clattn_mask mask = {way < 3 ? kinds[way] : CLATTN_MASK_KEEP, masks[way < 3 ? way : 0].view};
  clattn_options options;
  clattn_options_init(&options);
  options.masks = way < 3 ? &mask : NULL;
  options.mask_count = way < 3;
  options.kv_lengths = way < 3 ? NULL : &count.view;
  options.weights = &weights->view;
  clattn_mha *mha = NULL;
  EXPECT_SUCCESS(context, clattn_mha_create(context, m->parameters, (clattn_type)0, &mha));
  EXPECT_SUCCESS(context, clattn_mha_forward(mha, &hidden.view, NULL, NULL, &out->view, &options));
  EXPECT_SUCCESS(context, clattn_finish(context));
  clattn_mha_destroy(&mha);
  guarded_release(&hidden);
  guarded_release(&count);
  for (int n = 0; n < 3; n++) guarded_release(&masks[n]);
  free(block);
  free(add);
  free(lengths);
}

static void expect_near(const char *what, const test_guarded *guarded, const ref_array *want) {
  test_line line = {{0}};
  const test_shape shape = guarded_shape(guarded);
  double *got = test_alloc(want->count, sizeof *got);
  guarded_read(guarded, got, NULL);
  cr_expect(compare_arrays(what, got, &shape, want, &shape, &line), "%s", line.text);
  cr_expect(guarded_check(guarded, what, 0, &line), "%s", line.text);
  free(got);
}

Test(minilm, four_sentences) {
  minilm m;
  minilm_load(&m);
  ref_layer_result reference = run_reference(&m);
  expect_dump("layer0_out", &m.out, &reference.output);
  expect_dump("layer0_weights", &m.weights, &reference.attention.weights);
  clattn_context *context = test_context();
  for (int way = 0; way < (test_is_small() ? 1 : 4); way++) {
    test_guarded out = guarded_create(context, CLATTN_FLOAT32, &m.out.shape, NULL, NULL);
    test_guarded weights = guarded_create(context, CLATTN_FLOAT32, &m.weights.shape, NULL, NULL);
    run_layer(context, &m, way, &out, &weights);
    expect_near("output", &out, &reference.output);
    expect_near("weights", &weights, &reference.attention.weights);
    guarded_release(&out);
    guarded_release(&weights);
  }
  ref_layer_result_release(&reference);
  clattn_context_destroy(&context);
  minilm_release(&m);
}

/* The file as the model ships it: names, widths, type. */
Test(minilm, parameters) {
  minilm m;
  minilm_load(&m);
  clattn_mha_config config;
  clattn_parameters_config(m.parameters, &config);
  cr_expect(config.embed_dim == WIDTH && config.heads == HEADS && config.kv_heads == HEADS && config.head_dim == 32 &&
            config.value_head_dim == 32 && config.kdim == WIDTH && config.vdim == WIDTH && config.out_dim == WIDTH);
  cr_expect_eq(config.bias, 1);
  cr_expect_eq(clattn_parameters_type(m.parameters), CLATTN_FLOAT32);
  uint64_t count = 0;
  cr_expect_eq(clattn_parameter_count(&config, &count, NULL, 0), CLATTN_SUCCESS);
  cr_expect_eq(count, 4 * 384 * 384 + 4 * 384);
  minilm_release(&m);
}
