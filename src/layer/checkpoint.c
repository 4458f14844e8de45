/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters in .safetensors files under the names that the field uses. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/output.h"
#include "io/safetensors.h"
#include "layer/parameters.h"

enum { NAME_SIZE = 512 };

/* A naming: where each parameter lives. A weight or bias that is stacked shares a tensor with its neighbours, in the
 * order of clattn_parameter. */
typedef struct name_table {
  clattn_naming naming;
  const char *label;
  const char *names[CLATTN_PARAMETER_COUNT];
  int partial_bias; /* 1: files with some of the biases exist (only Q, K, V have one): the others are zero */
} name_table;

static const name_table tables[] = {
    {CLATTN_NAMING_TORCH,
     "torch",
     {"in_proj_weight", "in_proj_weight", "in_proj_weight", "out_proj.weight", "in_proj_bias", "in_proj_bias",
      "in_proj_bias", "out_proj.bias", "bias_k", "bias_v"},
     0},
    {CLATTN_NAMING_TORCH,
     "torch (separate projections)",
     {"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight", "in_proj_bias", "in_proj_bias",
      "in_proj_bias", "out_proj.bias", "bias_k", "bias_v"},
     0},
    {CLATTN_NAMING_BERT,
     "bert",
     {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight", "self.query.bias",
      "self.key.bias", "self.value.bias", "output.dense.bias", NULL, NULL},
     0},
    {CLATTN_NAMING_LLAMA,
     "llama",
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_proj.bias", "k_proj.bias", "v_proj.bias",
      "o_proj.bias", NULL, NULL},
     1},
    {CLATTN_NAMING_WQ,
     "wq",
     {"w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight", "w_q.bias", "w_k.bias", "w_v.bias", "w_o.bias", NULL,
      NULL},
     1},
    {CLATTN_NAMING_WQ,
     "wq",
     {"W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight", "W_q.bias", "W_k.bias", "W_v.bias", "W_o.bias", NULL,
      NULL},
     1},
};
enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

static clattn_status from_io(io_status status) {
  switch (status) {
  case IO_OK:
    return CLATTN_SUCCESS;
  case IO_INVALID:
    return CLATTN_INVALID_FILE;
  case IO_NO_MEMORY:
    return CLATTN_OUT_OF_HOST_MEMORY;
  case IO_SYSTEM:
    break;
  }
  return CLATTN_FILE_ERROR;
}

/* Runs a call of src/io and hands on what it says. */
#define CHECK_IO(to, error, expression)                                                                                \
  do {                                                                                                                 \
    io_status check_io = (expression);                                                                                 \
    if (check_io != IO_OK) {                                                                                           \
      status = message_fail(to, from_io(check_io), "%s", (error).text);                                                \
      goto cleanup;                                                                                                    \
    }                                                                                                                  \
  } while (0)

/* ---------------------------------------------------------------------------------------------------------- loading */

typedef struct load_job {
  st_file *file;
  const char *path, *prefix;
  const name_table *table;
  const st_tensor *tensors[CLATTN_PARAMETER_COUNT]; /* NULL: none (a bias); stacked ones repeat */
  clattn_mha_config config;
  message to;
} load_job;

static const st_tensor *find(const load_job *job, const char *name) {
  if (name == NULL) return NULL;
  char whole[NAME_SIZE];
  int length = snprintf(whole, sizeof whole, "%s%s", job->prefix, name);
  return length > 0 && (size_t)length < sizeof whole ? st_find(job->file, whole) : NULL;
}

static const char *tensor_shape_text(const st_tensor *tensor, char out[SHAPE_TEXT_SIZE]) {
  return shape_text(out, tensor->rank < ST_MAX_RANK ? tensor->rank : ST_MAX_RANK, tensor->shape);
}

/* The names that stand in the file, as many as fit. */
static void list_names(const load_job *job, char *out, size_t size) {
  text_builder text = text_begin(out, size);
  size_t count = st_count(job->file), shown = 0;
  for (; shown < count && text.used + 48 < size; shown++)
    text_add(&text, "%s%s", shown ? ", " : "", st_at(job->file, shown)->name);
  if (shown < count) text_add(&text, ", ... (%zu in all)", count);
}

/* Bytes of `name` in front of the table's name for the first weight; -1 if it does not end in that. The end of a longer
 * word is none: "myq_proj.weight". */
static int prefix_length(const name_table *table, const char *name) {
  const char *end = table->names[CLATTN_WQ];
  const size_t length = strlen(name), end_length = strlen(end);
  if (length < end_length || strcmp(name + length - end_length, end) != 0) return -1;
  const size_t rest = length - end_length;
  return rest > INT_MAX || (rest > 0 && isalnum((unsigned char)name[rest - 1])) ? -1 : (int)rest;
}

/* "; prefix 'encoder.layer.0.attention.' would fit, as would 11 others", or nothing. */
static void suggest_prefix(const load_job *job, clattn_naming naming, char *out, size_t size) {
  text_builder text = text_begin(out, size);
  size_t fits = 0;
  for (size_t i = 0; i < st_count(job->file); i++)
    for (int t = 0; t < TABLE_COUNT; t++) {
      const char *name = st_at(job->file, i)->name;
      const int length = prefix_length(&tables[t], name);
      if (length < 0 || (naming != CLATTN_NAMING_AUTO && tables[t].naming != naming)) continue;
      if (fits++ == 0) text_add(&text, "; prefix '%.*s' would fit", length < 256 ? length : 256, name);
    }
  if (fits > 1) text_add(&text, ", as would %zu other%s", fits - 1, fits > 2 ? "s" : "");
}

static clattn_status find_table(load_job *job, clattn_naming naming) {
  char names[600], prefix[320];
  const name_table *fit = NULL;
  for (int t = 0; t < TABLE_COUNT; t++) {
    if ((naming != CLATTN_NAMING_AUTO && tables[t].naming != naming) || !find(job, tables[t].names[CLATTN_WQ]))
      continue;
    if (fit != NULL && fit->naming != tables[t].naming)
      return message_fail(job->to, CLATTN_INVALID_FILE, "%s has both %s%s and %s%s: say which naming to use",
                          io_path_tail(job->path), job->prefix, fit->names[CLATTN_WQ], job->prefix,
                          tables[t].names[CLATTN_WQ]);
    if (fit == NULL) fit = &tables[t];
  }
  if (fit != NULL) {
    job->table = fit;
    return CLATTN_SUCCESS;
  }
  suggest_prefix(job, naming, prefix, sizeof prefix);
  list_names(job, names, sizeof names);
  return message_fail(job->to, CLATTN_INVALID_FILE, "%s has no layer named '%.64s' + %s%s; it has: %s",
                      io_path_tail(job->path), job->prefix,
                      naming == CLATTN_NAMING_TORCH   ? "in_proj_weight or q_proj_weight"
                      : naming == CLATTN_NAMING_BERT  ? "self.query.weight"
                      : naming == CLATTN_NAMING_LLAMA ? "q_proj.weight"
                      : naming == CLATTN_NAMING_WQ
                          ? "w_q.weight or W_q.weight"
                          : "in_proj_weight, q_proj_weight, self.query.weight, q_proj.weight, w_q.weight or W_q.weight",
                      prefix, names);
}

static clattn_status find_tensors(load_job *job) {
  char names[500];
  int biases = 0, extra = 0;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    job->tensors[which] = find(job, job->table->names[which]);
    if (job->tensors[which] == NULL) continue;
    biases += which >= CLATTN_BQ && which <= CLATTN_BO;
    extra += which >= CLATTN_BIAS_K;
  }
  job->config.bias = biases > 0;
  job->config.bias_kv = extra > 0;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    int partial = job->table->partial_bias && which >= CLATTN_BQ && which <= CLATTN_BO;
    if (job->tensors[which] != NULL || partial || !config_has(&job->config, (clattn_parameter)which)) continue;
    list_names(job, names, sizeof names);
    return message_fail(job->to, CLATTN_INVALID_FILE, "%s lacks %.64s%s of naming %s; it has: %s",
                        io_path_tail(job->path), job->prefix, job->table->names[which], job->table->label, names);
  }
  return CLATTN_SUCCESS;
}

/* Parameters that share this one's tensor: how many, and the first. */
static int stack_size(const name_table *table, int which, int *first) {
  int size = 0;
  *first = which;
  if (table->names[which] == NULL) return 1;
  for (int other = 0; other < CLATTN_PARAMETER_COUNT; other++) {
    if (table->names[other] == NULL || strcmp(table->names[other], table->names[which]) != 0) continue;
    if (size++ == 0) *first = other;
  }
  return size;
}

static int is_stacked_weights(const name_table *table) {
  int first = 0;
  return stack_size(table, CLATTN_WQ, &first) > 1;
}

/* Rows and columns of a weight. */
static clattn_status weight_extents(const load_job *job, int which, size_t *rows, size_t *columns) {
  const st_tensor *tensor = job->tensors[which];
  char have[SHAPE_TEXT_SIZE];
  if (tensor->rank != 2 || tensor->shape[0] == 0 || tensor->shape[1] == 0)
    return message_fail(job->to, CLATTN_INVALID_SHAPE, "%s: %s has shape %s, not two extents above 0",
                        io_path_tail(job->path), tensor->name, tensor_shape_text(tensor, have));
  *rows = tensor->shape[0];
  *columns = tensor->shape[1];
  return CLATTN_SUCCESS;
}

/* The head counts must divide the projected widths, and keys must have heads of the queries' size. */
static clattn_status check_heads(const load_job *job, const size_t rows[4], size_t heads, size_t groups) {
  const char *path = io_path_tail(job->path);
  if (rows[CLATTN_WQ] % heads != 0)
    return message_fail(job->to, CLATTN_INVALID_SHAPE,
                        "%s: heads %zu does not divide the query's projected width %zu of %s", path, heads,
                        rows[CLATTN_WQ], job->tensors[CLATTN_WQ]->name);
  const size_t size = rows[CLATTN_WQ] / heads, key_heads = rows[CLATTN_WK] / size;
  if (key_heads != groups && key_heads > 0 && rows[CLATTN_WK] % size == 0 && heads % key_heads == 0)
    return message_fail(job->to, CLATTN_INVALID_SHAPE,
                        "%s: %s has %zu rows for keys, %zu heads of size %zu, but heads is %zu and kv_heads %zu", path,
                        job->tensors[CLATTN_WK]->name, rows[CLATTN_WK], key_heads, size, heads, groups);
  if (rows[CLATTN_WV] % groups != 0)
    return message_fail(job->to, CLATTN_INVALID_SHAPE,
                        "%s: kv_heads %zu does not divide the value's projected width %zu of %s", path, groups,
                        rows[CLATTN_WV], job->tensors[CLATTN_WV]->name);
  return CLATTN_SUCCESS;
}

/* Widths from the four weights' shapes and the head counts. */
static clattn_status derive_config(load_job *job, size_t heads, size_t kv_heads) {
  clattn_mha_config *config = &job->config;
  size_t rows[4] = {0}, columns[4] = {0};
  for (int w = 0; w < 4; w++) {
    clattn_status status = weight_extents(job, w, &rows[w], &columns[w]);
    if (status != CLATTN_SUCCESS) return status;
  }
  if (is_stacked_weights(job->table)) {
    if (rows[CLATTN_WQ] % 3 != 0)
      return message_fail(job->to, CLATTN_INVALID_SHAPE, "%s: %s has %zu rows, not three times a width",
                          io_path_tail(job->path), job->tensors[CLATTN_WQ]->name, rows[CLATTN_WQ]);
    rows[CLATTN_WQ] = rows[CLATTN_WK] = rows[CLATTN_WV] = rows[CLATTN_WQ] / 3;
  }
  const size_t groups = kv_heads != 0 ? kv_heads : heads;
  clattn_status status = check_heads(job, rows, heads, groups);
  if (status != CLATTN_SUCCESS) return status;
  config->heads = heads;
  config->kv_heads = groups;
  config->embed_dim = columns[CLATTN_WQ];
  config->head_dim = rows[CLATTN_WQ] / heads;
  config->value_head_dim = rows[CLATTN_WV] / groups;
  config->kdim = columns[CLATTN_WK];
  config->vdim = columns[CLATTN_WV];
  config->out_dim = rows[CLATTN_WO];
  return config_resolve(config, config, job->to);
}

/* The shape of a tensor that holds parameters `first` and the stacked - 1 behind it; returns its rank. PyTorch keeps
 * bias_k and bias_v as [1,1,width]. */
static int file_shape(const clattn_mha_config *config, int first, int stacked, size_t shape[3]) {
  size_t rows = 0, columns = 0, total = 0;
  for (int which = first; which < first + stacked; which++) {
    config_shape(config, (clattn_parameter)which, &rows, &columns);
    total += rows;
  }
  if (first >= CLATTN_BIAS_K) {
    shape[0] = shape[1] = 1;
    shape[2] = total;
    return 3;
  }
  shape[0] = total;
  shape[1] = columns;
  return parameter_is_bias((clattn_parameter)first) ? 1 : 2;
}

/* Every tensor must have the shape that the widths give it. */
static clattn_status check_shapes(const load_job *job) {
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    const st_tensor *tensor = job->tensors[which];
    size_t want[3];
    char have[SHAPE_TEXT_SIZE], right[SHAPE_TEXT_SIZE];
    int first = 0, stacked = stack_size(job->table, which, &first);
    if (tensor == NULL) continue;
    int rank = file_shape(&job->config, first, stacked, want);
    if (tensor->rank == rank && memcmp(tensor->shape, want, (size_t)rank * sizeof *want) == 0) continue;
    return message_fail(job->to, CLATTN_INVALID_SHAPE, "%s: %s has shape %s, not %s", io_path_tail(job->path),
                        tensor->name, tensor_shape_text(tensor, have), shape_text(right, rank, want));
  }
  return CLATTN_SUCCESS;
}

static clattn_type widest_type(const load_job *job) {
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++)
    if (job->tensors[which] != NULL && job->tensors[which]->type == ST_F64) return CLATTN_FLOAT64;
  return CLATTN_FLOAT32;
}

/* Reads one tensor and deals its rows out to the parameters that are stacked in it. */
static clattn_status read_stack(load_job *job, int first, int stacked, clattn_parameters *parameters) {
  clattn_status status = CLATTN_SUCCESS;
  io_error error;
  const size_t element = clattn_type_size(parameters->type);
  unsigned char *all = NULL;
  size_t bytes[CLATTN_PARAMETER_COUNT] = {0}, total = 0;
  for (int which = first; which < first + stacked; which++) {
    size_t rows = 0, columns = 0;
    config_shape(&job->config, (clattn_parameter)which, &rows, &columns);
    bytes[which] = rows * columns * element;
    total += bytes[which];
  }
  void *target = parameters->data[first];
  if (stacked > 1) {
    target = all = malloc(total > 0 ? total : 1);
    if (all == NULL)
      return message_fail(job->to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %s of %zu bytes",
                          job->tensors[first]->name, total);
  }
  CHECK_IO(job->to, error,
           parameters->type == CLATTN_FLOAT64 ? st_read_f64(job->file, job->tensors[first], target, &error)
                                              : st_read_f32(job->file, job->tensors[first], target, &error));
  for (size_t which = (size_t)first, at = 0; all != NULL && which < (size_t)first + (size_t)stacked; which++) {
    memcpy(parameters->data[which], all + at, bytes[which]);
    at += bytes[which];
  }

cleanup:
  free(all);
  return status;
}

static clattn_status read_all(load_job *job, clattn_parameters *parameters) {
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    int first = 0, stacked = stack_size(job->table, which, &first);
    if (which != first || job->tensors[which] == NULL) continue; /* a missing bias stays zero */
    clattn_status status = read_stack(job, first, stacked, parameters);
    if (status != CLATTN_SUCCESS) return status;
  }
  return CLATTN_SUCCESS;
}

clattn_status clattn_parameters_load(const char *path, const char *prefix, clattn_naming naming, size_t heads,
                                     size_t kv_heads, clattn_parameters **parameters, char *text, size_t text_size) {
  clattn_status status = CLATTN_SUCCESS;
  message to = {text, text_size};
  io_error error;
  load_job job;
  memset(&job, 0, sizeof job);
  clattn_mha_config_init(&job.config);
  job.path = path;
  job.prefix = prefix != NULL ? prefix : "";
  job.to = to;
  message_clear(to);
  if (parameters == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "parameters is NULL");
  *parameters = NULL;
  if (path == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "path is NULL");
  if ((int)naming < CLATTN_NAMING_AUTO || (int)naming > CLATTN_NAMING_WQ)
    return message_fail(to, CLATTN_INVALID_ARGUMENT, "naming is %d, which is none", (int)naming);
  if (heads == 0 || (kv_heads != 0 && heads % kv_heads != 0))
    return message_fail(to, CLATTN_INVALID_SHAPE, "heads is %zu and kv_heads %zu: the latter must divide the former",
                        heads, kv_heads);
  CHECK_IO(to, error, st_open(path, &job.file, &error));
  CHECK(find_table(&job, naming));
  CHECK(find_tensors(&job));
  CHECK(derive_config(&job, heads, kv_heads));
  CHECK(check_shapes(&job));
  CHECK(parameters_allocate(&job.config, widest_type(&job), parameters, to));
  CHECK(read_all(&job, *parameters));

cleanup:
  if (status != CLATTN_SUCCESS) clattn_parameters_destroy(parameters);
  st_close(&job.file);
  return status;
}

/* ----------------------------------------------------------------------------------------------------------- saving */

/* The table to save under. PyTorch's layer has room for one width only, but for kdim and vdim. */
static const name_table *saving_table(const clattn_parameters *parameters, clattn_naming naming, message to) {
  const clattn_mha_config *c = &parameters->config;
  if (naming != CLATTN_NAMING_TORCH && c->bias_kv) {
    (void)message_fail(to, CLATTN_INVALID_ARGUMENT, "only naming torch has a place for bias_k and bias_v");
    return NULL;
  }
  if (naming != CLATTN_NAMING_TORCH) {
    for (int t = 0; t < TABLE_COUNT; t++)
      if (tables[t].naming == naming) return &tables[t];
    (void)message_fail(to, CLATTN_INVALID_ARGUMENT, "naming is %d: choose torch, bert, llama or wq", (int)naming);
    return NULL;
  }
  if (c->heads * c->head_dim != c->embed_dim || c->kv_heads != c->heads || c->value_head_dim != c->head_dim ||
      c->out_dim != c->embed_dim) {
    (void)message_fail(to, CLATTN_INVALID_ARGUMENT,
                       "naming torch has no place for widths that differ: embed_dim %zu, heads %zu of %zu and %zu, "
                       "kv_heads %zu, out_dim %zu",
                       c->embed_dim, c->heads, c->head_dim, c->value_head_dim, c->kv_heads, c->out_dim);
    return NULL;
  }
  return c->kdim == c->embed_dim && c->vdim == c->embed_dim ? &tables[0] : &tables[1];
}

/* A tensor to save: one parameter as it is, or several stacked in a new array (*stack, owned by the caller). */
static clattn_status make_item(const clattn_parameters *parameters, int first, int stacked, st_item *item, void **stack,
                               message to) {
  const size_t element = clattn_type_size(parameters->type);
  size_t rows = 0, columns = 0, total = 0;
  item->type = parameters->type == CLATTN_FLOAT64 ? ST_F64 : ST_F32;
  item->rank = file_shape(&parameters->config, first, stacked, item->shape);
  item->data = parameters->data[first];
  if (stacked == 1) return CLATTN_SUCCESS;
  for (int which = first; which < first + stacked; which++) {
    config_shape(&parameters->config, (clattn_parameter)which, &rows, &columns);
    total += rows * columns * element;
  }
  unsigned char *all = malloc(total > 0 ? total : 1);
  if (all == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a stack of %zu bytes", total);
  *stack = all;
  item->data = all;
  for (int which = first; which < first + stacked; which++) {
    config_shape(&parameters->config, (clattn_parameter)which, &rows, &columns);
    memcpy(all, parameters->data[which], rows * columns * element);
    all += rows * columns * element;
  }
  return CLATTN_SUCCESS;
}

clattn_status clattn_parameters_save(const clattn_parameters *parameters, const char *path, const char *prefix,
                                     clattn_naming naming, char *text, size_t text_size) {
  clattn_status status = CLATTN_SUCCESS;
  message to = {text, text_size};
  io_error error;
  output_set *outputs = NULL;
  FILE *file = NULL;
  st_item items[CLATTN_PARAMETER_COUNT];
  void *stacks[CLATTN_PARAMETER_COUNT] = {NULL};
  char names[CLATTN_PARAMETER_COUNT][NAME_SIZE];
  size_t count = 0;
  memset(items, 0, sizeof items);
  message_clear(to);
  if (parameters == NULL || path == NULL)
    return message_fail(to, CLATTN_INVALID_ARGUMENT, "%s is NULL", path == NULL ? "path" : "parameters");
  const name_table *table = saving_table(parameters, naming, to);
  if (table == NULL) return CLATTN_INVALID_ARGUMENT;

  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    int first = 0, stacked = stack_size(table, which, &first);
    if (which != first || parameters->data[which] == NULL) continue;
    int length = snprintf(names[count], NAME_SIZE, "%s%s", prefix != NULL ? prefix : "", table->names[which]);
    if (length < 0 || length >= NAME_SIZE) {
      status = message_fail(to, CLATTN_INVALID_ARGUMENT, "prefix of %zu bytes is too long", strlen(prefix));
      goto cleanup;
    }
    CHECK(make_item(parameters, first, stacked, &items[count], &stacks[count], to));
    items[count].name = names[count];
    count++;
  }
  CHECK_IO(to, error, output_set_create(&outputs, &error));
  CHECK_IO(to, error, output_set_add(outputs, path, &file, &error));
  io_status saved = st_save(file, items, count, &error);
  if (saved != IO_OK) { /* which knows the stream alone */
    status = message_fail(to, from_io(saved), "%s: %s", io_path_tail(path), error.text);
    goto cleanup;
  }
  CHECK_IO(to, error, output_set_commit(outputs, &error));

cleanup:
  output_set_destroy(&outputs);
  for (int i = 0; i < CLATTN_PARAMETER_COUNT; i++) free(stacks[i]);
  return status;
}
