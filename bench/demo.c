/* SPDX-License-Identifier: Apache-2.0
 *
 * Second half of demo.sh: compares what the program computed with the stored answers and prints what a person wants to
 * see.
 *
 *     clattn_demo DATA OUT.npy WEIGHTS.npy RUN.json
 *
 * DATA is the folder tests/data/minilm, RUN.json what `clattn mha --json` printed. Exit status: 0 the answers agree; 1
 * they do not; 2 a file cannot be used. How far an answer may be off is not a chosen number: the scalar reference of
 * the tests derives a bound for every element from the roundings of float32. */
#include "io/npy.h"
#include "reference/reference.h"

#include <float.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 12, TOP = 3, MAX_TOKENS = 64, MAX_SENTENCES = 4, PATH_LENGTH = 4096 };

/* Words shown in the last table: a sentence and its first token of that name. */
static const struct {
  size_t sentence;
  const char *token;
} shown_words[] = {
    {0, "me"}, {1, "possibility"}, {1, "walk"}, {2, "man"}, {2, "fortune"}, {2, "wife"}, {3, "happy"}, {3, "blessings"},
};

typedef struct demo {
  npy_array hidden, key_keep;          /* [B,T,E], [B,T] */
  npy_array want_output, want_weights; /* [B,T,E], [B,H,T,T] */
  npy_array output, weights;           /* what the program wrote, same shapes */
  char text[4096];                     /* of tokens.txt; the names below point into it */
  const char *tokens[MAX_SENTENCES][MAX_TOKENS];
} demo;

/* How far the answers are from those that are stored. */
typedef struct deviation {
  double largest, bound; /* absolute: the largest deviation anywhere, and the bound of its element */
  double share;          /* the largest deviation / bound; above 1 the answer is wrong */
} deviation;

static bool load_array(const char *folder, const char *name, npy_type type, int rank, npy_array *array) {
  char path[PATH_LENGTH];
  io_error error = {""};
  snprintf(path, sizeof path, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", name);
  if (npy_load(path, array, &error) != IO_OK) {
    fprintf(stderr, "demo: %s\n", error.text);
    return false;
  }
  if (array->type != type || array->rank != rank) {
    fprintf(stderr, "demo: %s has type %s and rank %d, not %s and %d\n", path, npy_type_name(array->type), array->rank,
            npy_type_name(type), rank);
    return false;
  }
  return true;
}

static bool load_tokens(demo *d, const char *folder) {
  char path[PATH_LENGTH];
  snprintf(path, sizeof path, "%s/tokens.txt", folder);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return false;
  }
  size_t length = fread(d->text, 1, sizeof d->text - 1, file);
  fclose(file);
  d->text[length] = '\0';

  char *at = d->text;
  for (size_t b = 0; b < d->hidden.shape[0]; b++) {
    for (size_t t = 0; t < d->hidden.shape[1]; t++) {
      size_t size = strcspn(at, " \n");
      if (size == 0 || at[size] == '\0') {
        fprintf(stderr, "demo: %s ends at token %zu of sentence %zu\n", path, t, b);
        return false;
      }
      d->tokens[b][t] = at;
      at[size] = '\0';
      at += size + 1;
    }
  }
  return true;
}

static bool load_all(demo *d, const char *folder, const char *output, const char *weights) {
  if (!load_array(folder, "hidden.npy", NPY_F4, 3, &d->hidden) ||
      !load_array(folder, "key_keep.npy", NPY_BOOL, 2, &d->key_keep) ||
      !load_array(folder, "layer0_out.npy", NPY_F4, 3, &d->want_output) ||
      !load_array(folder, "layer0_weights.npy", NPY_F4, 4, &d->want_weights) ||
      !load_array("", output, NPY_F4, 3, &d->output) || !load_array("", weights, NPY_F4, 4, &d->weights))
    return false;
  if (d->hidden.shape[0] > MAX_SENTENCES || d->hidden.shape[1] > MAX_TOKENS ||
      d->want_weights.count != d->key_keep.count * HEADS * d->hidden.shape[1] ||
      d->want_output.count != d->hidden.count ||
      memcmp(d->output.shape, d->want_output.shape, sizeof d->output.shape) != 0 ||
      memcmp(d->weights.shape, d->want_weights.shape, sizeof d->weights.shape) != 0) {
    fprintf(stderr, "demo: shapes differ: the output has %zu numbers of %zu, the weights %zu of %zu\n", d->output.count,
            d->want_output.count, d->weights.count, d->want_weights.count);
    return false;
  }
  return load_tokens(d, folder);
}

static ref_array widened(const float *values, size_t count) {
  ref_array array = ref_array_create(count);
  for (size_t i = 0; i < count; i++) array.value[i] = (double)values[i];
  return array;
}

/* The layer in double from the same inputs: each number with the distance that float32 arithmetic may be from it. */
static ref_layer_result run_reference(const demo *d, const clattn_parameters *parameters) {
  clattn_mha_config config;
  clattn_parameters_config(parameters, &config);
  size_t batch = d->hidden.shape[0], len = d->hidden.shape[1], width = d->hidden.shape[2];
  ref_layer layer = {.batch = batch,
                     .q_len = len,
                     .kv_len = len,
                     .heads = config.heads,
                     .kv_heads = config.heads,
                     .head_dim = config.head_dim,
                     .value_head_dim = config.value_head_dim,
                     .embed_dim = width,
                     .kdim = width,
                     .vdim = width,
                     .out_dim = config.out_dim,
                     .scale = CLATTN_SCALE_AUTO,
                     .rules = {.window_left = -1, .window_right = -1},
                     .arithmetic = ref_float32()};
  layer.query = widened(d->hidden.data, d->hidden.count);
  layer.key = layer.value = layer.query;
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    size_t count = p < CLATTN_BQ ? width * width : width;
    layer.parameter[p] = widened(clattn_parameters_data(parameters, (clattn_parameter)p), count);
  }
  ref_array keep = ref_array_create(d->key_keep.count);
  for (size_t i = 0; i < keep.count; i++) keep.value[i] = ((const unsigned char *)d->key_keep.data)[i];
  ref_mask mask = {CLATTN_MASK_KEEP, {batch, 1, 1, len}, keep.value};
  layer.rules.masks = &mask;
  layer.rules.mask_count = 1;

  ref_layer_result result = ref_layer_run(&layer);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) ref_array_release(&layer.parameter[p]);
  ref_array_release(&keep);
  ref_array_release(&layer.query);
  return result;
}

static deviation compare(const npy_array *got, const npy_array *want, const ref_array *reference) {
  deviation worst = {0.0, 0.0, 0.0};
  const float *g = got->data, *w = want->data;
  for (size_t i = 0; i < got->count; i++) {
    double distance = fabs((double)g[i] - (double)w[i]);
    if (isnan(distance)) distance = INFINITY;
    /* The stored answer was rounded to float32 itself. */
    double bound = reference->bound[i] + fabs((double)w[i]) * 0.5 * (double)FLT_EPSILON;
    double share = distance == 0.0 ? 0.0 : distance / bound;
    if (distance > worst.largest) {
      worst.largest = distance;
      worst.bound = bound;
    }
    if (share > worst.share) worst.share = share;
  }
  return worst;
}

static bool print_deviation(const char *name, const char *shape, deviation d) {
  bool good = d.share <= 1.0;
  printf("  %-8s %-14s %17.2e %17.2e %11.2f %%   %s\n", name, shape, d.largest, d.bound, 100.0 * d.share,
         good ? "agrees" : "WRONG");
  return good;
}

/* Reads the run's JSON and prints what ran and how long it took. */
static bool print_run(const char *path) {
  json_error_t error;
  json_t *run = json_load_file(path, 0, &error);
  const char *device = NULL, *driver = NULL, *chosen = NULL;
  double first = 0.0, least = 0.0, median = 0.0, most = 0.0;
  bool good = run != NULL && json_unpack_ex(run, &error, 0, "{s:s, s:s, s:s, s:F, s:{s:F, s:F, s:F}}", "device",
                                            &device, "driver", &driver, "path", &chosen, "first_ms", &first, "wall_ms",
                                            "min", &least, "median", &median, "max", &most) == 0;
  if (good) {
    printf("Attention layer 0 of all-MiniLM-L6-v2 (width 384, %d heads), four sentences padded to 53 tokens\n\n",
           HEADS);
    printf("  device   %s (driver %s)\n", device, driver);
    printf("  path     %s\n", chosen);
    printf("  time     %.2f ms (median; %.2f to %.2f), first run with kernel builds %.0f ms\n\n", median, least, most,
           first);
  } else {
    fprintf(stderr, "demo: %s: %s\n", path, error.text);
  }
  json_decref(run);
  return good;
}

static bool is_marker(const char *token) {
  return token[0] == '[';
}

/* The word with the largest `row` value that is not marked as seen, or SIZE_MAX. */
static size_t next_largest(const double *row, const bool *seen, size_t count) {
  size_t best = SIZE_MAX;
  for (size_t j = 0; j < count; j++) {
    if (!seen[j] && (best == SIZE_MAX || row[j] > row[best])) best = j;
  }
  return best;
}

static void print_word(const demo *d, size_t sentence, size_t query) {
  const size_t len = d->hidden.shape[1];
  const float *weights = (const float *)d->weights.data + sentence * HEADS * len * len;
  double mean[MAX_TOKENS] = {0.0}, head[HEADS][MAX_TOKENS];
  bool seen[MAX_TOKENS];
  for (size_t j = 0; j < len; j++) {
    seen[j] = is_marker(d->tokens[sentence][j]);
    for (size_t h = 0; h < HEADS; h++) {
      head[h][j] = (double)weights[(h * len + query) * len + j];
      mean[j] += head[h][j] / HEADS;
    }
  }
  char cell[32];
  printf("  %-12s", d->tokens[sentence][query]);
  for (size_t h = 1; h <= 2; h++) {
    size_t j = next_largest(head[h], seen, len);
    snprintf(cell, sizeof cell, "%s %.0f %%", d->tokens[sentence][j], 100.0 * head[h][j]);
    printf(" %-18s", cell);
  }
  for (int n = 0; n < TOP; n++) {
    size_t j = next_largest(mean, seen, len);
    if (j == SIZE_MAX) break;
    seen[j] = true;
    snprintf(cell, sizeof cell, "%s %.0f %%", d->tokens[sentence][j], 100.0 * mean[j]);
    printf(n + 1 < TOP ? " %-18s" : " %s", cell);
  }
  printf("\n");
}

static void print_words(const demo *d) {
  printf("\nWhere a word looks ([CLS] and [SEP] left out)\n\n");
  printf("  %-12s %-18s %-18s %s\n", "word", "head 1", "head 2", "mean of all heads");
  for (size_t w = 0; w < sizeof shown_words / sizeof shown_words[0]; w++) {
    for (size_t t = 0; t < d->hidden.shape[1]; t++) {
      if (strcmp(d->tokens[shown_words[w].sentence][t], shown_words[w].token) == 0) {
        print_word(d, shown_words[w].sentence, t);
        break;
      }
    }
  }
}

/* Compares and prints: 0, 1 or 2, as main returns it. */
static int check(const demo *d, const char *folder, const char *run) {
  char path[PATH_LENGTH], message[512] = "";
  clattn_parameters *parameters = NULL;
  snprintf(path, sizeof path, "%s/minilm_layer0.safetensors", folder);
  if (clattn_parameters_load(path, "encoder.layer.0.attention.", CLATTN_NAMING_AUTO, HEADS, 0, &parameters, message,
                             sizeof message) != CLATTN_SUCCESS) {
    fprintf(stderr, "demo: %s\n", message);
    return 2;
  }
  ref_layer_result reference = run_reference(d, parameters);
  clattn_parameters_destroy(&parameters);

  int result = 2;
  if (print_run(run)) {
    printf("  %-8s %-14s %17s %17s %13s\n", "answer", "shape", "largest deviation", "it may deviate", "used at most");
    bool output = print_deviation("output", "[4,53,384]", compare(&d->output, &d->want_output, &reference.output));
    bool weights = print_deviation("weights", "[4,12,53,53]",
                                   compare(&d->weights, &d->want_weights, &reference.attention.weights));
    print_words(d);
    result = output && weights ? 0 : 1;
  }
  ref_layer_result_release(&reference);
  return result;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: %s DATA OUT.npy WEIGHTS.npy RUN.json\n", argv[0]);
    return 2;
  }
  demo *d = calloc(1, sizeof *d);
  if (d == NULL) {
    perror("demo");
    return 2;
  }
  int result = load_all(d, argv[1], argv[2], argv[3]) ? check(d, argv[1], argv[4]) : 2;
  npy_array *arrays[] = {&d->hidden, &d->key_keep, &d->want_output, &d->want_weights, &d->output, &d->weights};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) npy_free(arrays[i]);
  free(d);
  return result;
}
