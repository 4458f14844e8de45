/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters in host memory: counted, made from arrays, drawn, loaded in every naming and type, saved and loaded
 * again. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp */
#endif
#include "layer/philox.h"
#include "support/dump.h"
#include "support/rng.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const weight_names[4] = {"wq", "wk", "wv", "wo"};

static clattn_mha_config make_config(size_t E, size_t H, int bias) {
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = E;
  config.heads = H;
  config.bias = bias;
  return config;
}

/* Rows and columns of a parameter, from the header's table; columns 1 for a bias. */
static void shape_of(const clattn_mha_config *c, int which, size_t shape[2]) {
  const size_t rows[4] = {c->heads * c->head_dim, c->kv_heads * c->head_dim, c->kv_heads * c->value_head_dim,
                          c->out_dim};
  const size_t columns[4] = {c->embed_dim, c->kdim, c->vdim, c->heads * c->value_head_dim};
  shape[0] = rows[which % 4];
  shape[1] = which < CLATTN_BQ ? columns[which] : 1;
}

#define EXPECT_DONE(call)                                                                                              \
  do {                                                                                                                 \
    const clattn_status status_ = (call);                                                                              \
    cr_assert(status_ == CLATTN_SUCCESS, "%s: %s: %s", #call, clattn_status_name(status_), message);                   \
    cr_expect_str_empty(message);                                                                                      \
  } while (0)

/* ---------------------------------------------------------------------------------------------------------- count */

Test(parameters, count) {
  static const struct {
    clattn_mha_config config;
    uint64_t without, with;
  } cases[] = {
      {{.embed_dim = 1, .heads = 1}, 4, 8},
      {{.embed_dim = 512, .heads = 8}, 4 * 512 * 512, 4 * 512 * 512 + 4 * 512},
      {{.embed_dim = 768, .heads = 12}, 2359296, 2362368}, /* BERT base */
      {{.embed_dim = 6, .heads = 2, .head_dim = 4, .value_head_dim = 5, .kdim = 7, .vdim = 3, .out_dim = 9},
       8 * 6 + 8 * 7 + 10 * 3 + 9 * 10,
       8 * 6 + 8 * 7 + 10 * 3 + 9 * 10 + 8 + 8 + 10 + 9},
      {{.embed_dim = 1 << 20, .heads = 16}, 4398046511104, 4398046511104 + (4 << 20)}, /* beyond 32 bits */
  };
  char message[512];
  for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
    for (int bias = 0; bias < 2; bias++) {
      clattn_mha_config config = cases[n].config;
      config.struct_size = sizeof config;
      config.bias = bias;
      uint64_t count = 0;
      EXPECT_DONE(clattn_parameter_count(&config, &count, message, sizeof message));
      cr_expect_eq(count, bias ? cases[n].with : cases[n].without, "case %zu: %llu", n, (unsigned long long)count);
    }
}

/* ---------------------------------------------------------------------------------------------------- from arrays */

Test(parameters, from_arrays) {
  char message[512];
  for (int bias = 0; bias < 2; bias++)
    for (int wide = 0; wide < 2; wide++) {
      clattn_mha_config config = make_config(6, 2, bias), filled;
      config.kdim = 5;
      config.vdim = 3;
      config.out_dim = 4;
      double data[CLATTN_PARAMETER_COUNT][36];
      const void *arrays[CLATTN_PARAMETER_COUNT] = {NULL};
      for (int p = 0; p < (bias ? 8 : 4); p++) {
        for (int n = 0; n < 36; n++) {
          const float narrow = (float)(p * 100 + n);
          if (wide) data[p][n] = p * 100 + n;
          if (!wide) memcpy((float *)data[p] + n, &narrow, sizeof narrow);
        }
        arrays[p] = data[p];
      }
      const clattn_type type = wide ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
      clattn_parameters *parameters = NULL;
      EXPECT_DONE(clattn_parameters_create(&config, type, arrays, &parameters, message, sizeof message));
      cr_expect_eq(clattn_parameters_type(parameters), type);
      clattn_parameters_config(parameters, &filled);
      cr_expect(filled.embed_dim == 6 && filled.heads == 2 && filled.kv_heads == 2 && filled.head_dim == 3 &&
                filled.value_head_dim == 3 && filled.kdim == 5 && filled.vdim == 3 && filled.out_dim == 4);
      cr_expect_eq(filled.bias, bias);
      cr_expect_eq(filled.struct_size, sizeof filled);
      for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
        const void *copy = clattn_parameters_data(parameters, (clattn_parameter)p);
        if (!arrays[p]) {
          cr_expect_null(copy);
          continue;
        }
        size_t shape[2];
        shape_of(&filled, p, shape);
        cr_assert_not_null(copy);
        cr_expect_neq(copy, arrays[p], "the arrays are to be copied");
        cr_expect_eq(memcmp(copy, arrays[p], shape[0] * shape[1] * clattn_type_size(type)), 0, "parameter %d", p);
      }
      clattn_parameters_destroy(&parameters);
      cr_expect_null(parameters);
      clattn_parameters_destroy(&parameters);
    }
  clattn_parameters_destroy(NULL);
}

/* --------------------------------------------------------------------------------------------------------- random */

/* The known answers that Random123 ships for philox4x32-10. */
Test(parameters, philox_known_answers) {
  static const struct {
    uint32_t counter[4], key[2], words[4];
  } answers[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                 {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                  {0xffffffff, 0xffffffff},
                  {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                 {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                  {0xa4093822, 0x299f31d0},
                  {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (size_t n = 0; n < sizeof answers / sizeof *answers; n++) {
    uint32_t words[4];
    philox4x32_10(answers[n].counter, answers[n].key, words);
    for (int i = 0; i < 4; i++) cr_expect_eq(words[i], answers[n].words[i], "vector %zu, word %d", n, i);
  }
}

/* Bit for bit what an independent program drew (tests/data/random). */
Test(parameters, random_values_are_pinned) {
  clattn_mha_config config = make_config(6, 2, 1);
  config.head_dim = 4;
  config.value_head_dim = 5;
  config.kdim = 7;
  config.vdim = 3;
  config.out_dim = 9;
  const double gain[4] = {sqrt(0.5), sqrt(0.5), 1, 0.5};
  char message[512];
  clattn_parameters *parameters = NULL;
  EXPECT_DONE(clattn_parameters_random(&config, gain, 0x0123456789abcdef, &parameters, message, sizeof message));
  cr_expect_eq(clattn_parameters_type(parameters), CLATTN_FLOAT32);
  for (int w = 0; w < 4; w++) {
    test_dump want = dump_load("random", weight_names[w], 0);
    const float *got = clattn_parameters_data(parameters, (clattn_parameter)w);
    for (size_t n = 0; n < want.count; n++)
      cr_assert_eq((double)got[n], want.values[n], "%s[%zu] is %.9g, not %.9g", weight_names[w], n, (double)got[n],
                   want.values[n]);
    const float *bias = clattn_parameters_data(parameters, (clattn_parameter)(CLATTN_BQ + w));
    size_t shape[2];
    clattn_mha_config filled;
    clattn_parameters_config(parameters, &filled);
    shape_of(&filled, w, shape);
    cr_expect_eq(want.count, shape[0] * shape[1]);
    for (size_t n = 0; n < shape[0]; n++) cr_expect_eq(bias[n], 0);
    dump_release(&want);
  }
  clattn_parameters_destroy(&parameters);
}

/* Xavier uniform: within +-a, a = gain * sqrt(6 / (fan_in + fan_out)), mean 0 and variance a^2/3, each within six
 * standard deviations of its estimate: sqrt(1/3N) a and, as u^4 has mean 1/5, sqrt((1/5 - 1/9)/N) a^2. */
static void expect_uniform(const float *values, size_t count, double bound) {
  double sum = 0, squares = 0, most = 0;
  for (size_t n = 0; n < count; n++) {
    const double x = (double)values[n] / bound;
    cr_assert(fabs(x) <= 1 + 0x1p-24, "element %zu is %g of the bound", n, x);
    if (fabs(x) > most) most = fabs(x);
    sum += x;
    squares += x * x;
  }
  const double N = (double)count;
  cr_expect_lt(fabs(sum / N), 6 * sqrt(1 / (3 * N)));
  cr_expect_lt(fabs(squares / N - 1.0 / 3), 6 * sqrt((1.0 / 5 - 1.0 / 9) / N));
  cr_expect_gt(most, 0.99); /* nearly every of thousands of draws could reach it: 0.99^1000 is 4e-5 */
}

Test(parameters, random_distribution) {
  clattn_mha_config config = make_config(64, 4, 1);
  config.kdim = 80;
  config.vdim = 48;
  char message[512];
  const double gains[4] = {1, 0.5, 2, sqrt(0.5)};
  for (int given = 0; given < 2; given++)
    for (uint64_t seed = 0; seed < 5; seed++) {
      clattn_parameters *parameters = NULL, *again = NULL, *other = NULL;
      const double *gain = given ? gains : NULL;
      EXPECT_DONE(clattn_parameters_random(&config, gain, seed, &parameters, message, sizeof message));
      EXPECT_DONE(clattn_parameters_random(&config, gain, seed, &again, message, sizeof message));
      EXPECT_DONE(clattn_parameters_random(&config, gain, seed + (1ull << 32), &other, message, sizeof message));
      clattn_mha_config filled;
      clattn_parameters_config(parameters, &filled);
      const float *first = clattn_parameters_data(parameters, CLATTN_WQ);
      for (int w = 0; w < 4; w++) {
        size_t shape[2];
        shape_of(&filled, w, shape);
        const size_t count = shape[0] * shape[1];
        const float *values = clattn_parameters_data(parameters, (clattn_parameter)w);
        expect_uniform(values, count, (given ? gains[w] : 1) * sqrt(6.0 / (double)(shape[0] + shape[1])));
        cr_expect_eq(memcmp(values, clattn_parameters_data(again, (clattn_parameter)w), count * sizeof *values), 0);
        cr_expect_neq(memcmp(values, clattn_parameters_data(other, (clattn_parameter)w), count * sizeof *values), 0,
                      "the upper half of the seed counts");
        if (w > 0) cr_expect_neq(memcmp(values, first, 1000 * sizeof *values), 0, "weights differ from each other");
      }
      clattn_parameters_destroy(&parameters);
      clattn_parameters_destroy(&again);
      clattn_parameters_destroy(&other);
    }
}

/* -------------------------------------------------------------------------------------------------------- loading */

/* tests/data/torch/parameters holds one small layer, E = 6, in every naming: (n - 10 * place) / 4 row-major, place in
 * the order wq wk wv wo bq bk bv bo. */
static void expect_fixture(const clattn_parameters *parameters, int bias, clattn_type type, const char *file) {
  clattn_mha_config config;
  clattn_parameters_config(parameters, &config);
  cr_expect(config.embed_dim == 6 && config.heads == 2 && config.kv_heads == 2 && config.head_dim == 3 &&
                config.value_head_dim == 3 && config.kdim == 6 && config.vdim == 6 && config.out_dim == 6,
            "%s", file);
  cr_expect_eq(config.bias, bias, "%s", file);
  cr_assert_eq(clattn_parameters_type(parameters), type, "%s", file);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    const void *data = clattn_parameters_data(parameters, (clattn_parameter)p);
    cr_assert_eq(data != NULL, p < CLATTN_BQ || (bias && p <= CLATTN_BO), "%s, parameter %d", file, p);
    for (int n = 0; data && n < (p < CLATTN_BQ ? 36 : 6); n++) {
      const double want = (n - 10.0 * p) / 4;
      const double got = type == CLATTN_FLOAT64 ? ((const double *)data)[n] : (double)((const float *)data)[n];
      cr_assert_eq(got, want, "%s, parameter %d, element %d: %g instead of %g", file, p, n, got, want);
    }
  }
}

static const struct {
  const char *file;
  clattn_naming naming;
  int bias;
  clattn_type type;
} fixtures[] = {
    {"torch_f32", CLATTN_NAMING_TORCH, 1, CLATTN_FLOAT32},
    {"torch_f64", CLATTN_NAMING_TORCH, 1, CLATTN_FLOAT64},
    {"torch_f16", CLATTN_NAMING_TORCH, 1, CLATTN_FLOAT32},
    {"torch_bf16", CLATTN_NAMING_TORCH, 1, CLATTN_FLOAT32},
    {"torch_apart_f32", CLATTN_NAMING_TORCH, 1, CLATTN_FLOAT32},
    {"bert_f32", CLATTN_NAMING_BERT, 1, CLATTN_FLOAT32},
    {"llama_f32", CLATTN_NAMING_LLAMA, 0, CLATTN_FLOAT32},
    {"wq_f32", CLATTN_NAMING_WQ, 1, CLATTN_FLOAT32},
    {"wq_f64", CLATTN_NAMING_WQ, 1, CLATTN_FLOAT64},
    {"wq_f16", CLATTN_NAMING_WQ, 1, CLATTN_FLOAT32},
    {"wq_bf16", CLATTN_NAMING_WQ, 1, CLATTN_FLOAT32},
    {"wq_capital_f32", CLATTN_NAMING_WQ, 0, CLATTN_FLOAT32},
};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static void fixture_path(char path[1024], const char *name) {
  char file[128];
  snprintf(file, sizeof file, "%s.safetensors", name);
  data_path(path, "torch/parameters", file);
}

Test(parameters, load_every_naming) {
  char path[1024], message[1024];
  for (int f = 0; f < FIXTURES; f++)
    for (int naming = CLATTN_NAMING_AUTO; naming <= CLATTN_NAMING_WQ; naming++) {
      clattn_parameters *parameters = NULL;
      fixture_path(path, fixtures[f].file);
      const clattn_status status =
          clattn_parameters_load(path, NULL, (clattn_naming)naming, 2, 0, &parameters, message, sizeof message);
      if (naming == CLATTN_NAMING_AUTO || naming == (int)fixtures[f].naming) {
        cr_assert_eq(status, CLATTN_SUCCESS, "%s: %s", fixtures[f].file, message);
        expect_fixture(parameters, fixtures[f].bias, fixtures[f].type, fixtures[f].file);
        clattn_parameters_destroy(&parameters);
        continue;
      }
      /* Another naming: refused, and the names present are listed. */
      cr_expect_eq(status, CLATTN_INVALID_FILE, "%s as naming %d: %s", fixtures[f].file, naming,
                   clattn_status_name(status));
      cr_expect_null(parameters);
      const char *present[] = {"", "_proj", "self.query.weight", "q_proj.weight", "_q.weight"};
      cr_expect_not_null(strstr(message, present[fixtures[f].naming]), "%s", message);
    }
}

Test(parameters, load_by_prefix) {
  char path[1024], message[1024];
  clattn_parameters *parameters = NULL;
  fixture_path(path, "prefixed");
  EXPECT_DONE(
      clattn_parameters_load(path, "encoder.0.", CLATTN_NAMING_AUTO, 2, 2, &parameters, message, sizeof message));
  expect_fixture(parameters, 1, CLATTN_FLOAT32, "prefixed");
  clattn_parameters_destroy(&parameters);
  const char *misses[] = {NULL, "", "encoder.1.", "encoder.0", "Encoder.0."};
  for (size_t n = 0; n < sizeof misses / sizeof *misses; n++) {
    const clattn_status status =
        clattn_parameters_load(path, misses[n], CLATTN_NAMING_BERT, 2, 0, &parameters, message, sizeof message);
    cr_expect_eq(status, CLATTN_INVALID_FILE);
    cr_expect_not_null(strstr(message, "encoder.0.self.query.weight"), "%s", message);
    cr_expect_null(parameters);
  }
}

/* -------------------------------------------------------------------------------------------------- save and load */

static void expect_equal(const clattn_parameters *a, const clattn_parameters *b, const char *what) {
  clattn_mha_config first, second;
  clattn_parameters_config(a, &first);
  clattn_parameters_config(b, &second);
  cr_expect_eq(memcmp(&first, &second, sizeof first), 0, "%s: widths", what);
  cr_assert_eq(clattn_parameters_type(a), clattn_parameters_type(b), "%s: type", what);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    const void *x = clattn_parameters_data(a, (clattn_parameter)p), *y = clattn_parameters_data(b, (clattn_parameter)p);
    size_t shape[2];
    shape_of(&first, p, shape);
    cr_assert_eq(x != NULL, y != NULL, "%s: parameter %d", what, p);
    if (x)
      cr_expect_eq(memcmp(x, y, shape[0] * shape[1] * clattn_type_size(clattn_parameters_type(a))), 0,
                   "%s: parameter %d", what, p);
  }
}

/* Parameters with recognisable values, biases included. */
static clattn_parameters *make_parameters(const clattn_mha_config *config, clattn_type type) {
  clattn_mha_config filled;
  char message[512];
  clattn_parameters *drawn = NULL, *made = NULL;
  EXPECT_DONE(clattn_parameters_random(config, NULL, 5, &drawn, message, sizeof message));
  clattn_parameters_config(drawn, &filled);
  clattn_parameters_destroy(&drawn);
  void *arrays[CLATTN_PARAMETER_COUNT] = {NULL};
  test_rng rng = {6};
  for (int p = 0; p < (config->bias ? 8 : 4); p++) {
    size_t shape[2];
    shape_of(&filled, p, shape);
    arrays[p] = test_alloc(shape[0] * shape[1], sizeof(double));
    for (size_t n = 0; n < shape[0] * shape[1]; n++) {
      const double wide = rng_normal(&rng);
      const float narrow = (float)wide;
      if (type == CLATTN_FLOAT64) memcpy((double *)arrays[p] + n, &wide, sizeof wide);
      if (type == CLATTN_FLOAT32) memcpy((float *)arrays[p] + n, &narrow, sizeof narrow);
    }
  }
  EXPECT_DONE(clattn_parameters_create(config, type, (const void *const *)arrays, &made, message, sizeof message));
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) free(arrays[p]);
  return made;
}

Test(parameters, save_and_load) {
  char folder[] = "/tmp/clattn_parameters_XXXXXX", path[64], message[1024];
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/saved.safetensors", folder);
  const char *prefixes[] = {NULL, "encoder.layer.0.attention."};
  for (int naming = CLATTN_NAMING_TORCH; naming <= CLATTN_NAMING_WQ; naming++)
    for (int n = 0; n < 16; n++) {
      clattn_mha_config config = make_config(6, 3, n & 1);
      const clattn_type type = n & 2 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
      const char *prefix = prefixes[n >> 2 & 1];
      if (n & 8) config.kdim = 5;
      if (n & 8) config.vdim = 7;
      clattn_parameters *made = make_parameters(&config, type), *loaded = NULL;
      EXPECT_DONE(clattn_parameters_save(made, path, prefix, (clattn_naming)naming, message, sizeof message));
      EXPECT_DONE(clattn_parameters_load(path, prefix, n & 1 ? CLATTN_NAMING_AUTO : (clattn_naming)naming, 3, 0,
                                         &loaded, message, sizeof message));
      expect_equal(made, loaded, "saved and loaded");
      clattn_parameters_destroy(&loaded);
      clattn_parameters_destroy(&made);
    }
  unlink(path);
  cr_expect_eq(rmdir(folder), 0, "nothing but the file may be left behind");
}

/* Widths that PyTorch's layer does not have are refused there and saved in the other namings. */
Test(parameters, save_widths_of_their_own) {
  char folder[] = "/tmp/clattn_parameters_XXXXXX", path[64], message[1024];
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/saved.safetensors", folder);
  clattn_mha_config config = make_config(6, 2, 1);
  config.head_dim = 5;
  config.value_head_dim = 4;
  config.out_dim = 9;
  clattn_parameters *made = make_parameters(&config, CLATTN_FLOAT32), *loaded = NULL;
  cr_expect_eq(clattn_parameters_save(made, path, NULL, CLATTN_NAMING_TORCH, message, sizeof message),
               CLATTN_INVALID_ARGUMENT);
  cr_expect_neq(access(path, F_OK), 0, "a refused save leaves no file");
  for (int naming = CLATTN_NAMING_BERT; naming <= CLATTN_NAMING_WQ; naming++) {
    EXPECT_DONE(clattn_parameters_save(made, path, NULL, (clattn_naming)naming, message, sizeof message));
    EXPECT_DONE(clattn_parameters_load(path, NULL, CLATTN_NAMING_AUTO, 2, 0, &loaded, message, sizeof message));
    expect_equal(made, loaded, "widths of their own");
    clattn_parameters_destroy(&loaded);
  }
  clattn_parameters_destroy(&made);
  unlink(path);
  rmdir(folder);
}
