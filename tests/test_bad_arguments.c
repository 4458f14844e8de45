/* SPDX-License-Identifier: Apache-2.0
 *
 * Every wrong argument of the functions around attention: devices, contexts, tensors, parameters. Refused with the
 * right status and a message that has the values in it; what was handed in stays as it was. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp */
#endif
#include "support/dump.h"
#include "support/guarded.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 1 if the text has all of the words, '|' between them. */
static int has_words(const char *text, const char *words) {
  char list[256], *rest = NULL;
  snprintf(list, sizeof list, "%s", words);
  for (char *word = strtok_r(list, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
    if (!strstr(text, word)) return 0;
  return 1;
}

/* For functions that write their message into `message`. */
#define REFUSED(status, words, call)                                                                                   \
  do {                                                                                                                 \
    const clattn_status got_ = (call);                                                                                 \
    cr_expect(got_ == CLATTN_##status, "%s: %s: %s", #call, clattn_status_name(got_), message);                        \
    cr_expect(has_words(message, words), "%s: the message lacks '%s': %s", #call, words, message);                     \
  } while (0)

/* For functions with a context. */
#define REFUSED_BY(context, status, words, call)                                                                       \
  do {                                                                                                                 \
    const clattn_status got_ = (call);                                                                                 \
    const char *text_ = clattn_context_message(context);                                                               \
    cr_expect(got_ == CLATTN_##status, "%s: %s: %s", #call, clattn_status_name(got_), text_);                          \
    cr_expect(has_words(text_, words), "%s: the message lacks '%s': %s", #call, words, text_);                         \
  } while (0)

/* ---------------------------------------------------------------------------------------------- devices, contexts */

Test(bad_arguments, devices_and_contexts) {
  char message[1024];
  clattn_context_options options;
  clattn_context *context = (clattn_context *)&options;
  clattn_device_info row;
  size_t count = 0;
  REFUSED(INVALID_ARGUMENT, "count", clattn_list_devices(NULL, &row, 1, NULL, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "devices|1", clattn_list_devices(NULL, NULL, 1, &count, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "context", clattn_context_create(NULL, NULL, message, sizeof message));
  clattn_context_options_init(&options);
  options.struct_size = 0;
  REFUSED(INVALID_ARGUMENT, "struct_size|0", clattn_context_create(&options, &context, message, sizeof message));
  cr_expect_null(context);
  options.struct_size = sizeof options + 1;
  REFUSED(INVALID_ARGUMENT, "struct_size", clattn_context_create(&options, &context, message, sizeof message));
  context = test_context();
  clattn_context_options_init(&options);
  options.queue = clattn_context_queue(context);
  options.device = "cpu";
  clattn_context *second = context;
  REFUSED(INVALID_ARGUMENT, "queue|cpu", clattn_context_create(&options, &second, message, sizeof message));
  cr_expect_null(second);
  clattn_context_destroy(&context);

  /* Questions without a context have answers, too. */
  cr_expect_null(clattn_context_cl(NULL));
  cr_expect_null(clattn_context_queue(NULL));
  cr_expect_null(clattn_context_device(NULL));
  cr_expect_null(clattn_context_device_info(NULL));
  cr_expect_not_null(clattn_context_message(NULL));
  cr_expect_eq(clattn_finish(NULL), CLATTN_INVALID_ARGUMENT);
  clattn_context_options_init_sized(NULL, sizeof options);
  clattn_options_init_sized(NULL, sizeof(clattn_options));
  clattn_mha_config_init_sized(NULL, sizeof(clattn_mha_config));
}

/* -------------------------------------------------------------------------------------------------------- tensors */

Test(bad_arguments, tensor_create) {
  clattn_context *context = test_context();
  clattn_tensor tensor;
  const size_t shape[4] = {2, 3, 4, 5}, half[2] = {(size_t)1 << 32, (size_t)1 << 32};
  const size_t nearly[2] = {(size_t)1 << 31, (size_t)1 << 31}, huge[1] = {(size_t)1 << 50};
  cr_expect_eq(clattn_tensor_create(NULL, CLATTN_FLOAT32, 4, shape, NULL, &tensor), CLATTN_INVALID_ARGUMENT);
  REFUSED_BY(context, INVALID_ARGUMENT, "tensor", clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, NULL));
  REFUSED_BY(context, INVALID_ARGUMENT, "shape", clattn_tensor_create(context, CLATTN_FLOAT32, 4, NULL, NULL, &tensor));
  REFUSED_BY(context, INVALID_SHAPE, "rank|0", clattn_tensor_create(context, CLATTN_FLOAT32, 0, shape, NULL, &tensor));
  REFUSED_BY(context, INVALID_SHAPE, "rank|5", clattn_tensor_create(context, CLATTN_FLOAT32, 5, shape, NULL, &tensor));
  REFUSED_BY(context, INVALID_SHAPE, "rank|-1",
             clattn_tensor_create(context, CLATTN_FLOAT32, -1, shape, NULL, &tensor));
  REFUSED_BY(context, INVALID_TYPE, "0", clattn_tensor_create(context, (clattn_type)0, 4, shape, NULL, &tensor));
  REFUSED_BY(context, INVALID_TYPE, "8", clattn_tensor_create(context, (clattn_type)8, 4, shape, NULL, &tensor));
  REFUSED_BY(context, INVALID_SHAPE, "4294967296", clattn_tensor_create(context, CLATTN_BOOL8, 2, half, NULL, &tensor));
  REFUSED_BY(context, INVALID_SHAPE, "2147483648",
             clattn_tensor_create(context, CLATTN_FLOAT32, 2, nearly, NULL, &tensor)); /* 2^62 elements, 2^64 bytes */
  REFUSED_BY(context, OUT_OF_DEVICE_MEMORY, "4503599627370496",
             clattn_tensor_create(context, CLATTN_FLOAT32, 1, huge, NULL, &tensor));
  cr_expect_null(tensor.buffer);
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &tensor));
  clattn_tensor_release(&tensor);
  clattn_context_destroy(&context);
}

Test(bad_arguments, tensor_copies) {
  clattn_context *context = test_context(), *other = test_context();
  const test_shape shape = {2, {3, 4}};
  const double values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  test_guarded guarded = guarded_create(context, CLATTN_FLOAT32, &shape, NULL, values);
  float host[12];
  for (int n = 0; n < 12; n++) host[n] = 77;
  const clattn_tensor good = guarded.view;
  clattn_tensor bad = good;
#define BOTH(status, words)                                                                                            \
  do {                                                                                                                 \
    REFUSED_BY(context, status, words, clattn_tensor_read(context, &bad, host));                                       \
    REFUSED_BY(context, status, words, clattn_tensor_write(context, &bad, host));                                      \
    bad = good;                                                                                                        \
  } while (0)
  bad.buffer = NULL;
  BOTH(INVALID_ARGUMENT, "NULL");
  bad.rank = 0;
  BOTH(INVALID_SHAPE, "rank|0");
  bad.rank = 5;
  BOTH(INVALID_SHAPE, "rank|5");
  bad.type = (clattn_type)9;
  BOTH(INVALID_TYPE, "9");
  bad.offset = 1000;
  BOTH(INVALID_BUFFER, "1000");
  bad.stride[0] = 1000;
  BOTH(INVALID_BUFFER, "1000");
  bad.stride[0] = SIZE_MAX;
  BOTH(INVALID_SHAPE, "64 bits");
  bad.shape[0] = SIZE_MAX;
  BOTH(INVALID_SHAPE, "64 bits");
  REFUSED_BY(context, INVALID_ARGUMENT, "NULL", clattn_tensor_read(context, NULL, host));
  REFUSED_BY(context, INVALID_ARGUMENT, "NULL", clattn_tensor_write(context, NULL, host));
  REFUSED_BY(context, INVALID_ARGUMENT, "host", clattn_tensor_read(context, &good, NULL));
  REFUSED_BY(context, INVALID_ARGUMENT, "host", clattn_tensor_write(context, &good, NULL));
  REFUSED_BY(other, INVALID_BUFFER, "another", clattn_tensor_read(other, &good, host));
  REFUSED_BY(other, INVALID_BUFFER, "another", clattn_tensor_write(other, &good, host));
  bad.stride[0] = 0;
  REFUSED_BY(context, INVALID_OVERLAP, "[0,1]", clattn_tensor_write(context, &bad, host));
  cr_expect_eq(clattn_tensor_read(NULL, &good, host), CLATTN_INVALID_ARGUMENT);
  cr_expect_eq(clattn_tensor_write(NULL, &good, host), CLATTN_INVALID_ARGUMENT);
#undef BOTH
  test_line line = {{0}};
  cr_expect(guarded_check(&guarded, "tensor", 1, &line), "%s", line.text);
  for (int n = 0; n < 12; n++) cr_expect_eq(host[n], 77);
  /* A transposition of dimensions that are not there is refused where it is used. */
  const clattn_tensor turned[3] = {clattn_tensor_transposed(good, 0, 2), clattn_tensor_transposed(good, -1, 0),
                                   clattn_tensor_transposed(good, 4, 0)};
  for (int n = 0; n < 3; n++) REFUSED_BY(context, INVALID_SHAPE, "rank", clattn_tensor_read(context, &turned[n], host));
  guarded_release(&guarded);
  clattn_context_destroy(&context);
  clattn_context_destroy(&other);
}

/* ----------------------------------------------------------------------------------------------------- parameters */

static clattn_mha_config make_config(size_t E, size_t heads) {
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = E;
  config.heads = heads;
  return config;
}

/* All functions that take a config refuse it alike. */
static void refuse_config(clattn_mha_config config, clattn_status status, const char *words) {
  char message[1024];
  float zeros[64] = {0};
  const void *arrays[CLATTN_PARAMETER_COUNT] = {zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros};
  uint64_t count = 0;
  clattn_parameters *parameters = (clattn_parameters *)zeros;
  cr_expect_eq(clattn_parameter_count(&config, &count, message, sizeof message), status, "%s", message);
  cr_expect(has_words(message, words), "'%s': %s", words, message);
  cr_expect_eq(clattn_parameters_create(&config, CLATTN_FLOAT32, arrays, &parameters, message, sizeof message), status,
               "%s", message);
  cr_expect(has_words(message, words), "'%s': %s", words, message);
  cr_expect_null(parameters);
  parameters = (clattn_parameters *)zeros;
  cr_expect_eq(clattn_parameters_random(&config, NULL, 0, &parameters, message, sizeof message), status, "%s", message);
  cr_expect(has_words(message, words), "'%s': %s", words, message);
  cr_expect_null(parameters);
}

Test(bad_arguments, configs) {
  clattn_mha_config config;
  refuse_config(make_config(0, 1), CLATTN_INVALID_SHAPE, "embed_dim|0");
  refuse_config(make_config(8, 0), CLATTN_INVALID_SHAPE, "heads|0");
  refuse_config(make_config(10, 3), CLATTN_INVALID_SHAPE, "10|3");
  refuse_config(make_config(8, 16), CLATTN_INVALID_SHAPE, "8|16");
  config = make_config(8, 4);
  config.kv_heads = 3;
  refuse_config(config, CLATTN_INVALID_SHAPE, "kv_heads|3|4");
  config = make_config((size_t)1 << 33, 1);
  refuse_config(config, CLATTN_INVALID_SHAPE, "64 bits|8589934592");
  config = make_config(1, (size_t)1 << 40);
  config.head_dim = (size_t)1 << 40;
  refuse_config(config, CLATTN_INVALID_SHAPE, "64 bits|1099511627776");
  config = make_config(4, 2);
  config.value_head_dim = SIZE_MAX / 2 + 1;
  refuse_config(config, CLATTN_INVALID_SHAPE, "64 bits");
  config = make_config(4, 2);
  config.kdim = SIZE_MAX;
  refuse_config(config, CLATTN_INVALID_SHAPE, "64 bits");
  config = make_config(8, 4);
  config.struct_size = 0;
  refuse_config(config, CLATTN_INVALID_ARGUMENT, "struct_size|0");
  config.struct_size = 4096;
  refuse_config(config, CLATTN_INVALID_ARGUMENT, "struct_size|4096");
}

Test(bad_arguments, parameters_from_arrays) {
  const clattn_mha_config config = make_config(4, 2);
  clattn_mha_config no_bias = config;
  no_bias.bias = 0;
  char message[1024];
  float zeros[16] = {0};
  uint64_t count = 0;
  const void *all[CLATTN_PARAMETER_COUNT] = {zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros};
  clattn_parameters *p = NULL;
  REFUSED(INVALID_ARGUMENT, "config", clattn_parameter_count(NULL, &count, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "count", clattn_parameter_count(&config, NULL, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "config", clattn_parameters_create(NULL, CLATTN_FLOAT32, all, &p, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "arrays",
          clattn_parameters_create(&config, CLATTN_FLOAT32, NULL, &p, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "parameters",
          clattn_parameters_create(&config, CLATTN_FLOAT32, all, NULL, message, sizeof message));
  REFUSED(INVALID_TYPE, "int32", clattn_parameters_create(&config, CLATTN_INT32, all, &p, message, sizeof message));
  REFUSED(INVALID_TYPE, "0", clattn_parameters_create(&config, (clattn_type)0, all, &p, message, sizeof message));
  static const char *const names[CLATTN_PARAMETER_COUNT] = {"WQ", "WK", "WV", "WO",     "BQ",
                                                            "BK", "BV", "BO", "BIAS_K", "BIAS_V"};
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    const void *some[CLATTN_PARAMETER_COUNT];
    memcpy(some, all, sizeof some);
    some[which] = which < CLATTN_BIAS_K ? NULL : zeros; /* the config has no extra keys */
    REFUSED(INVALID_ARGUMENT, names[which],
            clattn_parameters_create(&config, CLATTN_FLOAT32, some, &p, message, sizeof message));
    if (which < CLATTN_BQ) continue;
    const void *more[CLATTN_PARAMETER_COUNT] = {zeros, zeros, zeros, zeros};
    more[which] = zeros;
    REFUSED(INVALID_ARGUMENT, names[which],
            clattn_parameters_create(&no_bias, CLATTN_FLOAT32, more, &p, message, sizeof message));
  }
  const double gains[][4] = {{1, -1, 1, 1}, {(double)NAN, 1, 1, 1}, {1, 1, 1, HUGE_VAL}, {1, 1, -0x1p-1074, 1}};
  static const char *const words[] = {"gain[1]|-1", "gain[0]|nan", "gain[3]|inf", "gain[2]"};
  for (int n = 0; n < 4; n++)
    REFUSED(INVALID_ARGUMENT, words[n], clattn_parameters_random(&config, gains[n], 0, &p, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "config", clattn_parameters_random(NULL, NULL, 0, &p, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "parameters", clattn_parameters_random(&config, NULL, 0, NULL, message, sizeof message));
  cr_expect_null(p);
  cr_expect_null(clattn_parameters_data(NULL, CLATTN_WQ));
  cr_expect_eq(clattn_parameters_type(NULL), 0);
  cr_assert_eq(clattn_parameters_create(&config, CLATTN_FLOAT32, all, &p, NULL, 0), CLATTN_SUCCESS);
  cr_expect_null(clattn_parameters_data(p, (clattn_parameter)-1));
  cr_expect_null(clattn_parameters_data(p, CLATTN_PARAMETER_COUNT));
  clattn_parameters_destroy(&p);
}

/* A file of the given bytes; its malformations are the business of test_safetensors.c. */
static void write_file(const char *path, const void *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file);
  cr_assert_eq(fwrite(bytes, 1, count, file), count);
  cr_assert_eq(fclose(file), 0);
}

Test(bad_arguments, parameters_load) {
  char folder[] = "/tmp/clattn_bad_XXXXXX", path[1024], other[64], message[1024];
  clattn_parameters *p = (clattn_parameters *)message;
  cr_assert_not_null(mkdtemp(folder));
  data_path(path, "torch/parameters", "torch_f32.safetensors");
#define LOAD(file, naming, heads, kv_heads)                                                                            \
  clattn_parameters_load(file, NULL, naming, heads, kv_heads, &p, message, sizeof message)
  REFUSED(INVALID_ARGUMENT, "path", LOAD(NULL, CLATTN_NAMING_AUTO, 2, 0));
  cr_expect_null(p);
  REFUSED(INVALID_ARGUMENT, "parameters",
          clattn_parameters_load(path, NULL, CLATTN_NAMING_AUTO, 2, 0, NULL, message, sizeof message));
  REFUSED(INVALID_ARGUMENT, "naming|5", LOAD(path, (clattn_naming)5, 2, 0));
  REFUSED(INVALID_ARGUMENT, "naming|-1", LOAD(path, (clattn_naming)-1, 2, 0));
  REFUSED(INVALID_SHAPE, "heads|0", LOAD(path, CLATTN_NAMING_AUTO, 0, 0));
  REFUSED(INVALID_SHAPE, "heads|4|6", LOAD(path, CLATTN_NAMING_AUTO, 4, 0)); /* does not divide the width */
  REFUSED(INVALID_SHAPE, "6|kv_heads|4", LOAD(path, CLATTN_NAMING_AUTO, 6, 4));
  REFUSED(INVALID_FILE, "q_proj.weight|in_proj_weight", LOAD(path, CLATTN_NAMING_LLAMA, 2, 0));
  REFUSED(INVALID_FILE, folder, LOAD(folder, CLATTN_NAMING_AUTO, 2, 0)); /* a folder */
  snprintf(other, sizeof other, "%s/none", folder);
  REFUSED(INVALID_FILE, "none", LOAD(other, CLATTN_NAMING_AUTO, 2, 0));
  snprintf(other, sizeof other, "%s/file", folder);
  write_file(other, "", 0);
  REFUSED(INVALID_FILE, "file", LOAD(other, CLATTN_NAMING_AUTO, 2, 0));
  write_file(other, "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10); /* claims a header of 2^63 bytes */
  REFUSED(INVALID_FILE, "file|9223372036854775807", LOAD(other, CLATTN_NAMING_AUTO, 2, 0));
  write_file(other, "\x02\0\0\0\0\0\0\0{}", 10);
  REFUSED(INVALID_FILE, "file", LOAD(other, CLATTN_NAMING_AUTO, 2, 0)); /* no tensors */
#undef LOAD
  cr_expect_null(p);
  unlink(other);
  rmdir(folder);
}

Test(bad_arguments, parameters_save) {
  char folder[] = "/tmp/clattn_bad_XXXXXX", path[64], message[1024], prefix[1024];
  const clattn_mha_config config = make_config(4, 2);
  clattn_parameters *p = NULL;
  cr_assert_eq(clattn_parameters_random(&config, NULL, 0, &p, NULL, 0), CLATTN_SUCCESS);
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/file", folder);
#define SAVE(what, file, start, naming) clattn_parameters_save(what, file, start, naming, message, sizeof message)
  REFUSED(INVALID_ARGUMENT, "parameters", SAVE(NULL, path, NULL, CLATTN_NAMING_WQ));
  REFUSED(INVALID_ARGUMENT, "path", SAVE(p, NULL, NULL, CLATTN_NAMING_WQ));
  REFUSED(INVALID_ARGUMENT, "naming|0", SAVE(p, path, NULL, CLATTN_NAMING_AUTO));
  REFUSED(INVALID_ARGUMENT, "naming|9", SAVE(p, path, NULL, (clattn_naming)9));
  REFUSED(INVALID_FILE, folder, SAVE(p, folder, NULL, CLATTN_NAMING_WQ));
  REFUSED(INVALID_FILE, "nowhere", SAVE(p, "/nowhere/at/all", NULL, CLATTN_NAMING_WQ));
  REFUSED(INVALID_FILE, "/dev/null", SAVE(p, "/dev/null", NULL, CLATTN_NAMING_WQ));
  memset(prefix, 'x', sizeof prefix);
  prefix[sizeof prefix - 1] = 0;
  REFUSED(INVALID_ARGUMENT, "prefix|1023", SAVE(p, path, prefix, CLATTN_NAMING_WQ));
#undef SAVE
  clattn_parameters_destroy(&p);
  cr_expect_eq(rmdir(folder), 0, "a refused save leaves nothing behind");
}
