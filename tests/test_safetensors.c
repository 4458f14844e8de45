/* SPDX-License-Identifier: Apache-2.0
 *
 * .safetensors files: what is accepted, what is refused and how, exact widening, and the bytes that are written.
 */
#define _XOPEN_SOURCE 700
#include "io/safetensors.h"
#include "support/files.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[FILES_PATH_SIZE], path[FILES_PATH_SIZE];
static io_error error;

static void setup(void) {
  files_make_folder(folder);
  files_join(path, folder, "p.safetensors");
}

static void teardown(void) {
  files_remove_folder(folder);
}

TestSuite(safetensors, .init = setup, .fini = teardown, .timeout = 60);

/* Writes the claimed header length, a header and data (zeros if NULL). */
static void write_st_claiming(uint64_t claimed, const char *header, size_t length, const void *data, size_t size) {
  unsigned char *bytes = calloc(8 + length + size, 1);
  cr_assert_not_null(bytes);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(claimed >> (8 * i));
  memcpy(bytes + 8, header, length);
  if (data != NULL) memcpy(bytes + 8 + length, data, size);
  files_write(path, bytes, 8 + length + size);
  free(bytes);
}

static void write_st(const char *header, const void *data, size_t size) {
  write_st_claiming(strlen(header), header, strlen(header), data, size);
}

static st_file *open_st(void) {
  st_file *file;
  cr_assert_eq(st_open(path, &file, &error), IO_OK, "%s", error.text);
  cr_assert_not_null(file);
  return file;
}

static void expect_refused(const char *what, const char *fragment) {
  st_file *file = (st_file *)folder;
  io_status status = st_open(path, &file, &error);
  cr_assert_eq(status, IO_INVALID, "%.80s: status %d, \"%s\"", what, status, error.text);
  cr_assert_not_null(strstr(error.text, fragment), "%.80s: \"%s\" lacks \"%s\"", what, error.text, fragment);
  cr_assert_null(file);
}

Test(safetensors, lists_tensors_in_data_order) {
  write_st("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
           "\"__metadata__\":{\"format\":\"pt\",\"note\":\"\\u00e9\"},"
           "\"ids\":{\"shape\":[1],\"data_offsets\":[0,8],\"dtype\":\"I64\",\"future\":[{}]},"
           "\"none\":{\"dtype\":\"F16\",\"shape\":[4,0],\"data_offsets\":[32,32]},"
           "\"odd\":{\"dtype\":\"X3\",\"shape\":[5],\"data_offsets\":[32,33]},"
           "\"h\\u00e9\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[33,35]}}     ",
           NULL, 35);
  static const struct {
    const char *name, *dtype;
    st_type type;
    int rank;
    size_t shape[2], elements;
    uint64_t begin, end;
  } expected[] = {{"ids", "I64", ST_OTHER, 1, {1, 0}, 1, 0, 8},
                  {"w", "F32", ST_F32, 2, {2, 3}, 6, 8, 32},
                  {"none", "F16", ST_F16, 2, {4, 0}, 0, 32, 32},
                  {"odd", "X3", ST_OTHER, 1, {5, 0}, 5, 32, 33},
                  {"h\xc3\xa9", "BF16", ST_BF16, 0, {0, 0}, 1, 33, 35}};
  st_file *file = open_st();
  cr_assert_eq(st_count(file), 5);
  for (size_t i = 0; i < 5; i++) {
    const st_tensor *tensor = st_at(file, i);
    cr_assert_str_eq(tensor->name, expected[i].name);
    cr_assert_str_eq(tensor->dtype, expected[i].dtype);
    cr_assert_eq(tensor->type, expected[i].type);
    cr_assert_eq(tensor->rank, expected[i].rank);
    cr_assert_eq(bytes_differ(tensor->shape, expected[i].shape, sizeof expected[i].shape), 0, "%s", tensor->name);
    cr_assert_eq(tensor->begin, expected[i].begin);
    cr_assert_eq(tensor->end, expected[i].end);
    cr_assert_eq(st_elements(tensor), expected[i].elements);
    cr_assert_eq(st_find(file, expected[i].name), tensor);
  }
  cr_assert_null(st_find(file, "W"));
  cr_assert_null(st_find(file, "__metadata__"));
  st_close(&file);
  cr_assert_null(file);
  st_close(&file);
  st_close(NULL);
}

Test(safetensors, every_known_dtype_has_its_size) {
  static const struct {
    const char *dtype;
    size_t size;
  } cases[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
               {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char header[200], fragment[200];
    for (size_t off = 0; off < 2; off++) {
      size_t bytes = 3 * cases[i].size + off;
      snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
               cases[i].dtype, bytes);
      write_st(header, NULL, bytes);
      if (off == 0) {
        st_file *file = open_st();
        st_close(&file);
        continue;
      }
      snprintf(fragment, sizeof fragment, "tensor \"t\": 3 values of type %s need %zu bytes, but data_offsets hold %zu",
               cases[i].dtype, 3 * cases[i].size, bytes);
      expect_refused(header, fragment);
    }
  }
}

Test(safetensors, no_tensors) {
  write_st("{}", NULL, 0);
  st_file *file = open_st();
  cr_assert_eq(st_count(file), 0);
  cr_assert_null(st_find(file, ""));
  st_close(&file);
}

#define ROW(name, shape, offsets) "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

Test(safetensors, headers_refused) {
  static const struct {
    const char *header;
    size_t data;
    const char *fragment;
  } cases[] = {
      {"", 0, "is no .safetensors file: its header of 0 bytes does not begin with \"{\""},
      {" {}", 0, "its header of 3 bytes does not begin with \"{\""},
      {"[]", 0, "does not begin with \"{\""},
      {"{", 0, "malformed header: "},
      {"{} x", 0, "malformed header: end of file expected near 'x' (byte 4 of 4)"},
      {"{}{}", 0, "malformed header: end of file expected"},
      {"{\"a\":1,}", 0, "malformed header: "},
      {"{'a':1}", 0, "malformed header: "},
      {"{" ROW("a", "[1]", "[0,4]") "," ROW("a", "[1]", "[0,4]") "}", 4, "duplicate object key near '\"a\"'"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate object key"},
      {"{\"a\\u0000b\":{}}", 0, "NUL byte in object key"},
      {"{\"a\xff\":{}}", 0, "unable to decode byte 0xff"},
      {"{\"\\ud800\":{}}", 0, "malformed header: invalid Unicode"},
      {"{\"a\":3}", 0, "tensor \"a\": the entry is 3; it must be an object"},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor \"a\" has no dtype; it must be a string"},
      {"{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
       "tensor \"a\": dtype is 5; it must be a string"},
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
       "tensor \"a\" has no shape; it must be an array of extents"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4,
       "tensor \"a\" has no data_offsets; it must be two offsets in bytes"},
      {"{" ROW("a", "{\"0\":1}", "[0,4]") "}", 4, "shape is {\"0\":1}; it must be an array of extents"},
      {"{" ROW("a", "[-1]", "[0,4]") "}", 4, "shape is [-1]; it must be an array of extents"},
      {"{" ROW("a", "[1.0]", "[0,4]") "}", 4, "shape is [1.0]; it must be an array of extents"},
      {"{" ROW("a", "[1,\"1\"]", "[0,4]") "}", 4, "shape is [1,\"1\"]; it must be an array of extents"},
      {"{" ROW("a", "[9223372036854775808]", "[0,4]") "}", 4, "too big integer"},
      {"{" ROW("a", "[1e999]", "[0,4]") "}", 4, "real number overflow"},
      {"{" ROW("a", "[4294967296,4294967296]", "[0,4]") "}", 4,
       "shape is [4294967296,4294967296]; it must be such that the tensor's size fits the address space"},
      {"{" ROW("a", "[2305843009213693952]", "[0,4]") "}", 4, "fits the address space"},
      {"{\"a\":{\"dtype\":\"X\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
       "fits the address space"},
      {"{" ROW("a", "[1]", "[0]") "}", 4, "data_offsets is [0]; it must be two offsets in bytes"},
      {"{" ROW("a", "[1]", "[0,4,8]") "}", 4, "data_offsets is [0,4,8]"},
      {"{" ROW("a", "[1]", "[0,4.0]") "}", 4, "data_offsets is [0,4.0]"},
      {"{" ROW("a", "[1]", "[-4,0]") "}", 4, "data_offsets is [-4,0]"},
      {"{" ROW("a", "[1]", "[4,0]") "}", 4, "data_offsets is [4,0]; it must be in rising order"},
      {"{" ROW("a", "[1]", "\"0,4\"") "}", 4, "data_offsets is \"0,4\""},
      {"{" ROW("a", "[1]", "[0,4]") "}", 3, "tensor \"a\": data_offsets end at 4, but the file has 3 bytes of data"},
      {"{" ROW("a", "[1152921504606846976]", "[0,4611686018427387904]") "}", 4,
       "data_offsets end at 4611686018427387904, but the file has 4 bytes of data"},
      {"{" ROW("a", "[2]", "[0,4]") "}", 4, "tensor \"a\": 2 values of type F32 need 8 bytes, but data_offsets hold 4"},
      {"{" ROW("a", "[0]", "[0,4]") "}", 4, "tensor \"a\": 0 values of type F32 need 0 bytes, but data_offsets hold 4"},
      {"{" ROW("a", "[2]", "[0,8]") "," ROW("b", "[2]", "[4,12]") "}", 12,
       "tensor \"b\" begins at byte 4 of the data, but those before it end at 8: they overlap"},
      {"{" ROW("a", "[2]", "[0,8]") "," ROW("b", "[2]", "[0,8]") "}", 8, "tensor \"b\" begins at byte 0"},
      {"{" ROW("a", "[1]", "[8,12]") "," ROW("b", "[1]", "[0,4]") "}", 12,
       "tensor \"a\" begins at byte 8 of the data, but those before it end at 4: there is a hole"},
      {"{" ROW("a", "[1]", "[4,8]") "}", 8, "tensor \"a\" begins at byte 4 of the data, but those before it end at 0"},
      {"{" ROW("a", "[1]", "[0,4]") "}", 5, "the tensors end at byte 4 of the data, but the file has 5"},
      {"{}", 1, "the tensors end at byte 0 of the data, but the file has 1"},
      {"{\"__metadata__\":[]}", 0, "__metadata__ is no object"},
      {"{\"__metadata__\":{\"step\":3}}", 0, "__metadata__: the value of \"step\" is no string"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_st(cases[i].header, NULL, cases[i].data);
    expect_refused(cases[i].header, cases[i].fragment);
  }
  static const char with_nul[] = "{}\0";
  write_st_claiming(sizeof with_nul - 1, with_nul, sizeof with_nul - 1, NULL, 0);
  expect_refused("NUL behind the header", "malformed header: ");
}

Test(safetensors, deep_nesting_refused) {
  size_t depth = 100000, length = 5 + depth;
  char *header = malloc(length + 1);
  cr_assert_not_null(header);
  memset(header, '[', length);
  for (size_t i = 0; i < 5; i++) header[i] = "{\"a\":"[i];
  write_st_claiming(length, header, length, NULL, 0);
  expect_refused("nesting", "maximum parsing depth reached");
  free(header);
}

Test(safetensors, names_in_messages_are_short_and_printable) {
  char header[700], name[501];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  snprintf(header, sizeof header, "{\"\\u001b[2J\\n%s\":0}", name);
  write_st(header, NULL, 0);
  expect_refused("long name", "tensor \"\\x1b[2J\\x0annnnnn");
  cr_assert_null(strchr(error.text, '\n'));
  cr_assert_null(strchr(error.text, '\x1b'));
  cr_assert_not_null(strstr(error.text, "nnn\": the entry is 0; it must be an object"), "%s", error.text);
}

Test(safetensors, prefixes_refused) {
  files_write(path, "\x02\0\0\0\0\0\0", 7);
  expect_refused("7 bytes", "has 7 bytes, which is too short for a .safetensors file");
  write_st_claiming(3, "{}", 2, NULL, 0);
  expect_refused("one beyond", "claims a header of 3 bytes, but the file has 10 bytes");
  write_st_claiming(UINT64_MAX, "{}", 2, NULL, 0);
  expect_refused("2^64 - 1", "claims a header of 18446744073709551615 bytes, but the file has 10 bytes");
  write_st_claiming(100000001, "{}", 2, NULL, 0);
  cr_assert_eq(truncate(path, 200000000), 0); /* takes no room on the disk */
  expect_refused("100,000,001", "claims a header of 100000001 bytes; at most 100000000 are allowed");
}

Test(safetensors, only_regular_files_are_read) {
  expect_refused("missing", "p.safetensors: cannot be opened: No such file or directory");
  cr_assert_eq(mkfifo(path, 0600), 0);
  expect_refused("FIFO", "is a pipe; only regular files can be read");
  cr_assert_eq(unlink(path), 0);
  cr_assert_eq(symlink("/dev/zero", path), 0);
  expect_refused("device", "is a device; only regular files");
  cr_assert_eq(unlink(path), 0);
  cr_assert_eq(mkdir(path, 0700), 0);
  expect_refused("folder", "is a folder; only regular files");
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* The value of a 16-bit pattern by its definition, (-1)^s * 2^(e - bias) * 1.f; NaN where it is none. */
static double value_of_pattern(int pattern, int fraction_bits) {
  const int top = (1 << (15 - fraction_bits)) - 1, bias = top / 2;
  const int exponent = (pattern >> fraction_bits) & top, fraction = pattern & ((1 << fraction_bits) - 1);
  double value = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                               : ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  if (exponent == top) value = fraction == 0 ? (double)INFINITY : (double)NAN;
  return pattern >> 15 ? -value : value;
}

static void check_pattern(const char *dtype, int pattern, int fraction_bits, float wide, double wider) {
  const double expected = value_of_pattern(pattern, fraction_bits);
  cr_assert_eq(signbit(wide) != 0, pattern >> 15, "%s %04x", dtype, pattern);
  cr_assert_eq(signbit(wider) != 0, pattern >> 15, "%s %04x", dtype, pattern);
  if (isnan(expected)) {
    const uint32_t fraction = (uint32_t)pattern & ((1u << fraction_bits) - 1);
    cr_assert(isnan(wide) && isnan(wider), "%s %04x", dtype, pattern);
    cr_assert_eq(bits_of(wide) & 0x7fffff, fraction << (23 - fraction_bits), "%s %04x", dtype, pattern);
    return;
  }
  cr_assert_eq((double)wide, expected, "%s %04x: %a", dtype, pattern, (double)wide);
  cr_assert_eq(wider, expected, "%s %04x: %a", dtype, pattern, wider);
}

static void check_every_pattern(const char *dtype, int fraction_bits) {
  enum { COUNT = 65536 };
  static uint16_t patterns[COUNT];
  static float wide[COUNT + 1];
  static double wider[COUNT + 1];
  char header[128];
  for (int i = 0; i < COUNT; i++) patterns[i] = (uint16_t)i;
  snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[256,256],\"data_offsets\":[0,131072]}}", dtype);
  write_st(header, patterns, sizeof patterns);
  st_file *file = open_st();
  wide[COUNT] = 77, wider[COUNT] = 77;
  cr_assert_eq(st_read_f32(file, st_at(file, 0), wide, &error), IO_OK, "%s", error.text);
  cr_assert_eq(st_read_f64(file, st_at(file, 0), wider, &error), IO_OK, "%s", error.text);
  cr_assert_eq(wide[COUNT], 77.0f);
  cr_assert_eq(wider[COUNT], 77.0);
  for (int i = 0; i < COUNT; i++) check_pattern(dtype, i, fraction_bits, wide[i], wider[i]);
  st_close(&file);
}

Test(safetensors, every_half) {
  check_every_pattern("F16", 10);
}

Test(safetensors, every_bfloat16) {
  check_every_pattern("BF16", 7);
}

Test(safetensors, reads_f32_and_f64) {
  /* A signalling NaN, a subnormal and the largest number are among them. */
  const uint32_t singles[4] = {0x7fa00001, 0x00000001, 0x7f7fffff, 0x80000000};
  const double doubles[2] = {0.1, -5e-324};
  unsigned char data[32];
  float narrow[4];
  double wide[4];
  memcpy(data, doubles, 16);
  memcpy(data + 16, singles, 16);
  write_st("{\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}," ROW("s", "[2,2]", "[16,32]") "}", data,
           32);
  st_file *file = open_st();
  cr_assert_eq(st_read_f32(file, st_find(file, "s"), narrow, &error), IO_OK, "%s", error.text);
  cr_assert_eq(bytes_differ(narrow, singles, sizeof singles), 0);
  cr_assert_eq(st_read_f64(file, st_find(file, "s"), wide, &error), IO_OK, "%s", error.text);
  cr_assert(isnan(wide[0]));
  cr_assert_eq(wide[1], ldexp(1, -149));
  cr_assert_eq(wide[2], ldexp(16777215, 104));
  cr_assert(wide[3] == 0 && signbit(wide[3]));
  cr_assert_eq(st_read_f64(file, st_find(file, "d"), wide, &error), IO_OK, "%s", error.text);
  cr_assert_eq(bytes_differ(wide, doubles, sizeof doubles), 0);
  cr_assert_eq(st_read_f32(file, st_find(file, "d"), narrow, &error), IO_INVALID);
  cr_assert_not_null(strstr(error.text, "tensor \"d\" has type F64; F32, F16 and BF16 can be read here"), "%s",
                     error.text);
  st_close(&file);
}

Test(safetensors, unreadable_rows_are_refused_when_read) {
  double out[1];
  write_st("{\"i\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
           "\"unknown\":{\"dtype\":\"LONGER_THAN_FIFTEEN\",\"shape\":[1],\"data_offsets\":[8,9]},"
           "\"deep\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[9,11]}}",
           NULL, 11);
  st_file *file = open_st();
  cr_assert_eq(st_find(file, "deep")->rank, 9);
  cr_assert_str_eq(st_find(file, "unknown")->dtype, "LONGER_THAN_FIF");
  cr_assert_eq(st_read_f64(file, st_find(file, "i"), out, &error), IO_INVALID);
  cr_assert_not_null(strstr(error.text, "tensor \"i\" has type I64; F64, F32, F16 and BF16 can be read here"), "%s",
                     error.text);
  cr_assert_eq(st_read_f64(file, st_find(file, "unknown"), out, &error), IO_INVALID);
  cr_assert_eq(st_read_f64(file, st_find(file, "deep"), out, &error), IO_INVALID);
  cr_assert_not_null(strstr(error.text, "tensor \"deep\" has rank 9; at most 8 is supported"), "%s", error.text);
  st_close(&file);
}

Test(safetensors, no_elements) {
  float out[1] = {77};
  write_st("{" ROW("a", "[3,0]", "[0,0]") "}", NULL, 0);
  st_file *file = open_st();
  cr_assert_eq(st_read_f32(file, st_at(file, 0), out, &error), IO_OK, "%s", error.text);
  cr_assert_eq(out[0], 77.0f);
  st_close(&file);
}

Test(safetensors, file_that_shrinks_while_it_is_open) {
  static float out[1000];
  static const char header[] = "{" ROW("a", "[1000]", "[0,4000]") "}";
  char fragment[100];
  size_t begin = 8 + strlen(header);
  write_st(header, NULL, 4000);
  st_file *file = open_st();
  cr_assert_eq(truncate(path, (off_t)begin + 100), 0);
  cr_assert_eq(st_read_f32(file, st_at(file, 0), out, &error), IO_INVALID);
  snprintf(fragment, sizeof fragment, "ends at byte %zu but had %zu bytes when it was opened", begin + 100,
           begin + 4000);
  cr_assert_not_null(strstr(error.text, fragment), "%s", error.text);
  st_close(&file);
}

static const float singles[3] = {1.5f, -2.0f, 3.0f}, seven = 7;
static const double doubles[2] = {1.0, 2.0};

static const st_item items[] = {
    {.name = "z\xc3\xbc\"\n", .type = ST_F32, .rank = 2, .shape = {0, 2}},
    {.name = "b", .type = ST_F32, .rank = 1, .shape = {3}, .data = singles},
    {.name = "s", .type = ST_F32, .rank = 0, .data = &seven},
    {.name = "a", .type = ST_F64, .rank = 2, .shape = {1, 2}, .data = doubles},
};
enum { ITEM_COUNT = sizeof items / sizeof items[0] };

static void save(const st_item *list, size_t count) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file);
  cr_assert_eq(st_save(file, list, count, &error), IO_OK, "%s", error.text);
  cr_assert_eq(fclose(file), 0);
}

/* The Python package safetensors (0.8.0) writes these bytes for these tensors and the metadata {"format": "pt"}. */
Test(safetensors, saves_what_the_reference_implementation_saves) {
  static const char expected[] =
      "\x08\x01\0\0\0\0\0\0"
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F64\",\"shape\":[1,2],\"data_offsets\":[0,16]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[16,28]},"
      "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[28,32]},"
      "\"z\xc3\xbc\\\"\\n\":{\"dtype\":\"F32\",\"shape\":[0,2],\"data_offsets\":[32,32]}}";
  size_t size, header = sizeof expected - 1;
  save(items, ITEM_COUNT);
  char *bytes = files_read(path, &size);
  cr_assert_eq(bytes_differ(bytes, expected, header), 0, "%s", bytes + 8);
  cr_assert_eq(size, 8 + 264 + 32);
  for (; header < 8 + 264; header++) cr_assert_eq(bytes[header], ' ');
  cr_assert_eq(bytes_differ(bytes + header, doubles, 16), 0);
  cr_assert_eq(bytes_differ(bytes + header + 16, singles, 12), 0);
  cr_assert_eq(bytes_differ(bytes + header + 28, &seven, 4), 0);
  free(bytes);
}

Test(safetensors, saved_bytes_do_not_depend_on_the_order_of_items) {
  st_item reversed[ITEM_COUNT];
  size_t size, size_again;
  for (size_t i = 0; i < ITEM_COUNT; i++) reversed[i] = items[ITEM_COUNT - 1 - i];
  save(items, ITEM_COUNT);
  char *bytes = files_read(path, &size);
  save(reversed, ITEM_COUNT);
  char *again = files_read(path, &size_again);
  cr_assert_eq(size, size_again);
  cr_assert_eq(bytes_differ(bytes, again, size), 0);
  free(bytes);
  free(again);
}

Test(safetensors, round_trip) {
  float narrow[3];
  double wide[2];
  save(items, ITEM_COUNT);
  st_file *file = open_st();
  cr_assert_eq(st_count(file), ITEM_COUNT);
  for (size_t i = 0; i < ITEM_COUNT; i++) {
    const st_tensor *tensor = st_find(file, items[i].name);
    cr_assert_not_null(tensor, "%s", items[i].name);
    cr_assert_eq(tensor->type, items[i].type);
    cr_assert_eq(tensor->rank, items[i].rank);
    cr_assert_eq(bytes_differ(tensor->shape, items[i].shape, (size_t)tensor->rank * sizeof(size_t)), 0);
  }
  cr_assert_eq(st_read_f32(file, st_find(file, "b"), narrow, &error), IO_OK, "%s", error.text);
  cr_assert_eq(bytes_differ(narrow, singles, sizeof singles), 0);
  cr_assert_eq(st_read_f64(file, st_find(file, "a"), wide, &error), IO_OK, "%s", error.text);
  cr_assert_eq(bytes_differ(wide, doubles, sizeof doubles), 0);
  st_close(&file);
  save(NULL, 0);
  file = open_st();
  cr_assert_eq(st_count(file), 0);
  st_close(&file);
}

Test(safetensors, save_refuses_what_does_not_fit) {
  static const struct {
    st_item items[2];
    const char *fragment;
  } cases[] = {
      {{{.name = "a", .data = &seven, .type = ST_F32}, {.data = &seven, .type = ST_F32}}, "tensor 1 has no name"},
      {{{.name = "__metadata__", .data = &seven, .type = ST_F32}}, "no tensor can have the name __metadata__"},
      {{{.name = "a", .data = &seven, .type = ST_F16}}, "tensor \"a\": type 2 is neither ST_F32 nor ST_F64"},
      {{{.name = "a", .data = &seven, .type = ST_F32, .rank = 9}}, "tensor \"a\": rank 9 is not between 0 and 8"},
      {{{.name = "a", .data = &seven, .type = ST_F32, .rank = -1}}, "tensor \"a\": rank -1 is not between 0 and 8"},
      {{{.name = "a", .data = &seven, .type = ST_F32, .rank = 2, .shape = {SIZE_MAX, 2}}},
       "overflows the address space"},
      {{{.name = "a", .type = ST_F32, .rank = 1, .shape = {5}}}, "tensor \"a\" has 5 values but no data"},
      {{{.name = "a", .data = &seven, .type = ST_F32}, {.name = "a", .data = &seven, .type = ST_F32}},
       "two tensors have the name \"a\""},
      {{{.name = "a", .data = &seven, .type = ST_F32}, {.name = "a", .data = doubles, .type = ST_F64}},
       "two tensors have the name \"a\""},
      {{{.name = "\xff", .data = &seven, .type = ST_F32}}, "the name \"\\xff\" is no valid UTF-8"},
      {{{.name = "a", .data = &seven, .type = ST_F32, .rank = 1, .shape = {(size_t)1 << 60}},
        {.name = "b", .data = &seven, .type = ST_F32, .rank = 1, .shape = {(size_t)1 << 60}}},
       "the size of the file overflows 63 bits"},
  };
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t count = cases[i].items[1].data != NULL ? 2 : 1;
    cr_assert_eq(st_save(file, cases[i].items, count, &error), IO_INVALID, "%s", cases[i].fragment);
    cr_assert_not_null(strstr(error.text, cases[i].fragment), "\"%s\" lacks \"%s\"", error.text, cases[i].fragment);
  }
  cr_assert_eq(ftell(file), 0);
  cr_assert_eq(fclose(file), 0);
}

Test(safetensors, full_disk) {
  static float data[65536];
  st_item item = {.name = "a", .type = ST_F32, .rank = 1, .shape = {65536}, .data = data};
  FILE *file = fopen("/dev/full", "wb");
  cr_assert_not_null(file);
  cr_assert_eq(st_save(file, &item, 1, &error), IO_SYSTEM);
  cr_assert_not_null(strstr(error.text, "No space left on device"), "%s", error.text);
  fclose(file);
}
