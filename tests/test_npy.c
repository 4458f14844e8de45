/* SPDX-License-Identifier: Apache-2.0
 *
 * .npy files: what is accepted, what is refused and how, and that values survive bit for bit.
 */
#define _GNU_SOURCE /* fopencookie */
#include "io/npy.h"
#include "support/files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[FILES_PATH_SIZE], path[FILES_PATH_SIZE];

static void setup(void) {
  files_make_folder(folder);
  files_join(path, folder, "a.npy");
}

static void teardown(void) {
  files_remove_folder(folder);
}

TestSuite(npy, .init = setup, .fini = teardown, .timeout = 60);

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Writes a file of any version and header, followed by data. */
static void write_npy(int major, const char *header, size_t header_length, const void *data, size_t size) {
  const size_t prefix = major == 1 ? 10 : 12;
  unsigned char *bytes = calloc(prefix + header_length + size + 1, 1);
  cr_assert_not_null(bytes);
  memcpy(bytes, magic, sizeof magic);
  bytes[6] = (unsigned char)major;
  for (size_t i = 8; i < prefix; i++) bytes[i] = (unsigned char)(header_length >> (8 * (i - 8)));
  memcpy(bytes + prefix, header, header_length);
  if (size > 0) memcpy(bytes + prefix + header_length, data, size);
  files_write(path, bytes, prefix + header_length + size);
  free(bytes);
}

static void expect_refused(const char *what, io_status expected, const char *fragment) {
  npy_array array = {.rank = 77, .data = folder};
  io_error error = {""};
  io_status status = npy_load(path, &array, &error);
  cr_assert_eq(status, expected, "%s: status %d, \"%s\"", what, status, error.text);
  cr_assert_not_null(strstr(error.text, fragment), "%s: \"%s\" lacks \"%s\"", what, error.text, fragment);
  cr_assert_null(array.data);
  cr_assert_eq(array.rank, 0);
}

Test(npy, headers_accepted) {
  static const struct {
    const char *header;
    npy_type type;
    int rank;
    size_t shape[2];
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", NPY_F4, 2, {2, 3}},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", NPY_F4, 2, {2, 3}},
      {"{\"shape\":(2,3,),\"fortran_order\":False,\"descr\":\"<f4\"}", NPY_F4, 2, {2, 3}},
      {" \t{ 'fortran_order' :\nFalse , 'shape' : ( 6 , ) , 'descr' : '=f4' , } ", NPY_F4, 1, {6, 0}},
      {"{'descr': 'f4', 'fortran_order': False, 'shape': (2L, 3L), }", NPY_F4, 2, {2, 3}},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (), }", NPY_I4, 0, {0, 0}},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }", NPY_BOOL, 1, {5, 0}},
      {"{'descr': '?', 'fortran_order': False, 'shape': (5,), }", NPY_BOOL, 1, {5, 0}},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }", NPY_U2, 1, {5, 0}},
      {"{'descr': '<f2', 'fortran_order': True, 'shape': (5,), }", NPY_F2, 1, {5, 0}},
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", NPY_I8, 1, {3, 0}},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 0), }", NPY_F8, 2, {3, 0}},
      {"{'descr': '<f8', 'fortran_order': True, 'shape': (0, 10000000000), }", NPY_F8, 2, {0, 10000000000u}},
  };
  /* 24 bytes of data fit the largest case; what is behind the data of the others is ignored. */
  unsigned char data[24];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37 + 11);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int major = 1; major <= 3; major++) {
      npy_array array;
      io_error error = {""};
      size_t count = 1;
      for (int d = 0; d < cases[i].rank; d++) count *= cases[i].shape[d];
      write_npy(major, cases[i].header, strlen(cases[i].header), data, sizeof data);
      cr_assert_eq(npy_load(path, &array, &error), IO_OK, "%s: %s", cases[i].header, error.text);
      cr_assert_eq(array.type, cases[i].type, "%s", cases[i].header);
      cr_assert_eq(array.rank, cases[i].rank, "%s", cases[i].header);
      cr_assert_eq(bytes_differ(array.shape, cases[i].shape, (size_t)array.rank * sizeof(size_t)), 0, "%s",
                   cases[i].header);
      cr_assert_eq(array.count, count, "%s", cases[i].header);
      cr_assert_not_null(array.data);
      cr_assert_eq(bytes_differ(array.data, data, count * npy_type_size(array.type)), 0, "%s", cases[i].header);
      npy_free(&array);
      cr_assert_null(array.data);
    }
  }
}

Test(npy, headers_refused) {
  static const struct {
    const char *header, *fragment;
  } cases[] = {
      {"", "expected \"{\", found its end after 0 bytes"},
      {"['descr']", "expected \"{\" at byte 0, found \"['descr']\""},
      {"{", "expected a key, found its end after 1 bytes"},
      {"{,}", "expected a key at byte 1, found \",}\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", "expected the end at byte 58, found \"x\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "expected \",\" or \"}\", found its end"},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}",
       "expected \",\" or \"}\" at byte 16, found \"'fortran"},
      {"{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3)}", "expected \":\" at byte 9"},
      {"{'descr': '<f4', 'fortran_order': False, }", "key 'shape' is missing"},
      {"{'fortran_order': False, 'shape': (2, 3)}", "key 'descr' is missing"},
      {"{'descr': '<f4', 'shape': (2, 3)}", "key 'fortran_order' is missing"},
      {"{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}", "key 'descr' is there twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'extra': 1}", "key 'extra' is unknown"},
      {"{'Descr': '<f4'}", "key 'Descr' is unknown"},
      {"{'descr': '<f4, 'fortran_order': False}", "dtype '<f4, ' is not supported"},
      {"{'descr: '<f4'}", "key 'descr: ' is unknown"},
      {"{'descr", "expected a key at byte 1, found \"'descr\""},
      {"{'de\\x73cr': '<f4'}", "expected a key at byte 1"},
      {"{'descr': 4}", "expected a dtype such as '<f4' at byte 10, found \"4}\""},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}",
       "values are big-endian (dtype '>f4'); convert them with numpy.save(path, array.astype('<f4'))"},
      {"{'descr': '>i8', 'fortran_order': False, 'shape': (2, 3)}", "array.astype('<i8')"},
      {"{'descr': '<u4', 'fortran_order': False, 'shape': (2, 3)}", "dtype '<u4' is not supported; '|b1', '<u2'"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}", "dtype '|O' is not supported"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3)}", "dtype '<c8' is not supported"},
      {"{'descr': '', 'fortran_order': False, 'shape': (2, 3)}", "dtype '' is not supported"},
      {"{'descr': '<f16', 'fortran_order': False, 'shape': (2, 3)}", "dtype '<f16' is not supported"},
      {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3)}", "holds records (a structured dtype)"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", "expected True or False at byte 34, found \"0, "},
      {"{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2, 3)}", "expected \",\" or \"}\" at byte 39, found \"y"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
       "expected a shape such as (3, 4) at byte 50, found \"6}\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': [6]}", "expected a shape such as (3, 4)"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "expected \",\" at byte 52, found \")}\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "expected an extent at byte 51"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "expected \",\" at byte 53"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,2 3)}", "expected \",\" or \")\" at byte 55"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "expected an extent at byte 51, found \"-1,)}\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (06,)}", "expected an extent at byte 51, found \"06,)}\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}", "expected \",\" at byte 52, found \".0,)}\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
       "expected an extent that fits the machine's address space at byte 51, found \"18446744073709551616,)}\""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
       "the size of the array overflows the address space: {'descr': '<f4', 'fortran_order': False, 'shape': "
       "(4294967296, "
       "4294967296), }"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,)}", "overflows the address space"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0)}", "overflows the address space"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "has rank 9; at most 8 is supported"},
  };
  const float data[6] = {0};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_npy(1, cases[i].header, strlen(cases[i].header), data, sizeof data);
    expect_refused(cases[i].header, IO_INVALID, cases[i].fragment);
  }
  /* A NUL is no white space and ends no text. */
  static const char with_nul[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\0";
  write_npy(1, with_nul, sizeof with_nul, data, sizeof data);
  expect_refused("NUL", IO_INVALID, "expected the end at byte 57");
  static const char nul_in_key[] = "{'des\0cr': '<f4'}";
  write_npy(1, nul_in_key, sizeof nul_in_key - 1, data, sizeof data);
  expect_refused("NUL in a key", IO_INVALID, "expected a key at byte 1");
}

Test(npy, prefixes_refused) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *fragment;
  } cases[] = {
      {"", 0, "has 0 bytes, which is too short"},
      {"\x93NUMPY\x01\x00\x00", 9, "has 9 bytes, which is too short"},
      {"PK\x03\x04\x14\x00\x00\x00\x00\x00", 10, "it begins with bytes 50 4b 03 04 14 00"},
      {"\x93NUMPY\x00\x09\x00\x00", 10, "has .npy format 0.9; 1.0, 2.0 and 3.0 are supported"},
      {"\x93NUMPY\x01\x01\x00\x00", 10, "has .npy format 1.1"},
      {"\x93NUMPY\x04\x00\x00\x00", 10, "has .npy format 4.0"},
      {"\x93NUMPY\x01\x00\x76\x00", 10, "claims a header of 118 bytes, but the file has 10 bytes"},
      {"\x93NUMPY\x01\x00\x02\x00{", 11, "claims a header of 2 bytes, but the file has 11 bytes"},
      {"\x93NUMPY\x02\x00\x00\x00", 10, "but the file has 10 bytes"},
      {"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14, "claims a header of 4294967295 bytes, but the file has 14 bytes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    files_write(path, cases[i].bytes, cases[i].size);
    expect_refused(cases[i].fragment, IO_INVALID, cases[i].fragment);
  }
  size_t length = 1024 * 1024 + 1;
  char *header = malloc(length);
  cr_assert_not_null(header);
  memset(header, ' ', length);
  write_npy(2, header, length, NULL, 0);
  free(header);
  expect_refused("long header", IO_INVALID, "claims a header of 1048577 bytes; at most 1048576 are supported");
}

Test(npy, claims_beyond_the_file_are_refused) {
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const char *exact = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  write_npy(1, exact, strlen(exact), data, sizeof data - 1);
  expect_refused("one byte short", IO_INVALID, "claims 6 values of 4 bytes, but only 23 bytes follow its header");
  /* 4 TiB: were it allocated or read, the text would speak of memory or of the file's end. */
  const char *huge = "{'descr': '<f4', 'fortran_order': True, 'shape': (1048576, 1048576), }";
  write_npy(1, huge, strlen(huge), data, sizeof data);
  expect_refused("4 TiB", IO_INVALID, "claims 1099511627776 values of 4 bytes, but only 24 bytes follow its header");
}

Test(npy, only_regular_files_are_read) {
  expect_refused("missing", IO_INVALID, "a.npy: cannot be opened: No such file or directory");
  cr_assert_eq(mkfifo(path, 0600), 0);
  expect_refused("FIFO", IO_INVALID, "is a pipe; only regular files can be read");
  cr_assert_eq(unlink(path), 0);
  cr_assert_eq(mkdir(path, 0700), 0);
  expect_refused("folder", IO_INVALID, "is a folder; only regular files");
  cr_assert_eq(rmdir(path), 0);
  cr_assert_eq(symlink("/dev/zero", path), 0);
  expect_refused("device", IO_INVALID, "is a device; only regular files");
  cr_assert_eq(unlink(path), 0);
  cr_assert_eq(symlink("a.npy", path), 0);
  expect_refused("loop", IO_INVALID, "cannot be opened: Too many levels of symbolic links");
  cr_assert_eq(unlink(path), 0);
  files_write(path, "", 0);
  files_join(path, folder, "a.npy/b.npy");
  expect_refused("file as folder", IO_INVALID, "Not a directory");
}

Test(npy, unreadable_file) {
  files_write(path, "", 0);
  cr_assert_eq(chmod(path, 0000), 0);
  cr_assert_eq(chmod(folder, 0755), 0);
  uid_t self = geteuid();
  if (self == 0) cr_assert_eq(seteuid(65534), 0); /* root may read everything */
  expect_refused("mode 0000", IO_INVALID, "cannot be opened: Permission denied");
  if (self == 0) cr_assert_eq(seteuid(self), 0);
}

Test(npy, symbolic_link_is_followed) {
  char link[FILES_PATH_SIZE];
  npy_array array;
  io_error error = {""};
  const int32_t value = 42;
  write_npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': ()}", 53, &value, sizeof value);
  files_join(link, folder, "link.npy");
  cr_assert_eq(symlink("a.npy", link), 0);
  cr_assert_eq(npy_load(link, &array, &error), IO_OK, "%s", error.text);
  cr_assert_eq(*(const int32_t *)array.data, 42);
  npy_free(&array);
}

Test(npy, bool_bytes_stay) {
  unsigned char data[256];
  npy_array array;
  io_error error = {""};
  const char *header = "{'descr': '|b1', 'fortran_order': False, 'shape': (256,), }";
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)i;
  write_npy(1, header, strlen(header), data, sizeof data);
  cr_assert_eq(npy_load(path, &array, &error), IO_OK, "%s", error.text);
  cr_assert_eq(bytes_differ(array.data, data, sizeof data), 0);
  npy_free(&array);
}

/* Element f of a Fortran-order file has the indices that f has as a mixed-radix number, first index lowest. */
static void check_fortran(const char *descr, size_t size, int rank, const size_t *shape) {
  char header[256], extents[128] = "";
  size_t count = 1;
  npy_array array;
  io_error error = {""};
  for (int d = 0; d < rank; d++) {
    snprintf(extents + strlen(extents), sizeof extents - strlen(extents), "%zu,", shape[d]);
    count *= shape[d];
  }
  int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': True, 'shape': (%s)}", descr, extents);
  unsigned char *data = malloc(count * size);
  cr_assert_not_null(data);
  for (size_t i = 0; i < count * size; i++) data[i] = (unsigned char)(i * 2654435761u >> 13);
  write_npy(1, header, (size_t)length, data, count * size);
  cr_assert_eq(npy_load(path, &array, &error), IO_OK, "%s: %s", header, error.text);
  cr_assert_eq(array.rank, rank);
  cr_assert_eq(array.count, count);
  for (size_t f = 0; f < count; f++) {
    size_t index[4] = {0}, rest = f, at = 0;
    for (int d = 0; d < rank; d++) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    for (int d = 0; d < rank; d++) at = at * shape[d] + index[d];
    cr_assert_eq(bytes_differ((char *)array.data + at * size, data + f * size, size), 0, "%s: element %zu", header, f);
  }
  npy_free(&array);
  free(data);
}

Test(npy, fortran_order) {
  static const struct {
    const char *descr;
    size_t size;
  } types[] = {{"|b1", 1}, {"<u2", 2}, {"<i4", 4}, {"<f8", 8}};
  static const size_t shapes[][4] = {{5, 1, 1, 1}, {3, 7, 1, 1}, {2, 3, 5, 1},
                                     {4, 3, 2, 5}, {1, 6, 1, 4}, {257, 65, 3, 1}};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
      for (int rank = 0; rank <= 4; rank++) check_fortran(types[t].descr, types[t].size, rank, shapes[s]);
}

static const npy_type every_type[] = {NPY_BOOL, NPY_U2, NPY_I4, NPY_I8, NPY_F2, NPY_F4, NPY_F8};

Test(npy, types) {
  static const size_t sizes[] = {1, 2, 4, 8, 2, 4, 8};
  static const char *const names[] = {"bool", "uint16", "int32", "int64", "float16", "float32", "float64"};
  for (size_t i = 0; i < sizeof every_type / sizeof every_type[0]; i++) {
    cr_assert_eq(npy_type_size(every_type[i]), sizes[i]);
    cr_assert_str_eq(npy_type_name(every_type[i]), names[i]);
  }
  cr_assert_eq(npy_type_size((npy_type)99), 0);
  cr_assert_str_eq(npy_type_name((npy_type)99), "unknown");
}

Test(npy, round_trip) {
  static const size_t extents[NPY_MAX_RANK] = {3, 2, 1, 5, 2, 1, 3, 2};
  for (size_t t = 0; t < sizeof every_type / sizeof every_type[0]; t++) {
    for (int rank = 0; rank <= NPY_MAX_RANK; rank++) {
      npy_array array = {.type = every_type[t], .rank = rank, .count = 1}, again;
      io_error error = {""};
      for (int d = 0; d < rank; d++) array.count *= array.shape[d] = extents[d];
      size_t size = array.count * npy_type_size(array.type), file_size;
      unsigned char *data = malloc(size);
      cr_assert_not_null(data);
      for (size_t i = 0; i < size; i++) data[i] = (unsigned char)(i * 2654435761u >> 11); /* NaN patterns, too */
      array.data = data;
      FILE *file = fopen(path, "wb");
      cr_assert_eq(npy_save(file, &array, &error), IO_OK, "%s", error.text);
      cr_assert_eq(fclose(file), 0);
      char *bytes = files_read(path, &file_size);
      cr_assert_eq((file_size - size) % 64, 0);
      cr_assert_eq(bytes_differ(bytes + file_size - size, data, size), 0);
      cr_assert_eq(bytes[file_size - size - 1], '\n');
      free(bytes);
      cr_assert_eq(npy_load(path, &again, &error), IO_OK, "%s", error.text);
      cr_assert_eq(again.type, array.type);
      cr_assert_eq(again.rank, rank);
      cr_assert_eq(bytes_differ(again.shape, array.shape, sizeof array.shape), 0);
      cr_assert_eq(bytes_differ(again.data, data, size), 0);
      npy_free(&again);
      free(data);
    }
  }
}

Test(npy, bytes_written) {
  int64_t data[2] = {1, -2};
  npy_array array = {.type = NPY_I8, .rank = 1, .shape = {2}, .count = 2, .data = data};
  io_error error = {""};
  size_t size;
  FILE *file = fopen(path, "wb");
  cr_assert_eq(npy_save(file, &array, &error), IO_OK, "%s", error.text);
  cr_assert_eq(fclose(file), 0);
  char *bytes = files_read(path, &size), expected[144];
  int used = snprintf(expected, sizeof expected, "%-127s\n",
                      "..........{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }");
  cr_assert_eq(used, 128);
  memcpy(expected, magic, sizeof magic);
  expected[6] = 1, expected[7] = 0, expected[8] = 118, expected[9] = 0;
  memcpy(expected + 128, data, sizeof data);
  cr_assert_eq(size, 144);
  cr_assert_eq(bytes_differ(bytes, expected, size), 0);
  free(bytes);
}

Test(npy, save_without_values) {
  npy_array array = {.type = NPY_F4, .rank = 3, .shape = {2, 0, 7}}, again;
  io_error error = {""};
  FILE *file = fopen(path, "wb");
  cr_assert_eq(npy_save(file, &array, &error), IO_OK, "%s", error.text);
  cr_assert_eq(fclose(file), 0);
  cr_assert_eq(npy_load(path, &again, &error), IO_OK, "%s", error.text);
  cr_assert_eq(again.count, 0);
  cr_assert_eq(again.shape[0], 2);
  cr_assert_eq(again.shape[1], 0);
  cr_assert_eq(again.shape[2], 7);
  npy_free(&again);
}

Test(npy, save_refuses_what_does_not_fit) {
  float value = 1;
  static const struct {
    npy_array array;
    const char *fragment;
  } cases[] = {
      {{.type = (npy_type)99, .count = 1}, "type 99 is no .npy type"},
      {{.type = NPY_F4, .rank = -1, .count = 1}, "rank -1 is not between 0 and 8"},
      {{.type = NPY_F4, .rank = 9, .count = 1}, "rank 9 is not between 0 and 8"},
      {{.type = NPY_F4, .rank = 2, .shape = {2, 3}, .count = 5}, "has count 5, but its extents multiply to 6"},
      {{.type = NPY_F4, .rank = 2, .shape = {SIZE_MAX, 3}, .count = 5}, "overflows the address space"},
  };
  FILE *file = fopen(path, "wb");
  io_error error;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    npy_array array = cases[i].array;
    array.data = &value;
    cr_assert_eq(npy_save(file, &array, &error), IO_INVALID);
    cr_assert_not_null(strstr(error.text, cases[i].fragment), "%s", error.text);
  }
  npy_array array = {.type = NPY_F4, .count = 1};
  cr_assert_eq(npy_save(file, &array, &error), IO_INVALID);
  cr_assert_not_null(strstr(error.text, "has 1 values but no data"), "%s", error.text);
  cr_assert_eq(ftell(file), 0);
  cr_assert_eq(fclose(file), 0);
}

Test(npy, full_disk) {
  static float data[65536];
  npy_array array = {.type = NPY_F4, .rank = 1, .shape = {65536}, .count = 65536, .data = data};
  io_error error = {""};
  FILE *file = fopen("/dev/full", "wb");
  cr_assert_not_null(file);
  cr_assert_eq(npy_save(file, &array, &error), IO_SYSTEM);
  cr_assert_not_null(strstr(error.text, "No space left on device"), "%s", error.text);
  fclose(file);
}

typedef struct sink {
  unsigned calls;
  size_t used;
  char bytes[1024];
} sink;

/* A signal interrupts every call: one before it wrote anything, the next after 100 bytes at most. */
static ssize_t interrupted_write(void *cookie, const char *data, size_t size) {
  sink *to = cookie;
  size_t part = to->calls++ % 2 == 0 ? 0 : size < 100 ? size : 100;
  memcpy(to->bytes + to->used, data, part);
  to->used += part;
  errno = EINTR;
  return (ssize_t)part;
}

Test(npy, interrupted_writes_go_on) {
  sink to = {0};
  double data[64];
  io_error error = {""};
  for (int i = 0; i < 64; i++) data[i] = i * 0.1;
  npy_array array = {.type = NPY_F8, .rank = 1, .shape = {64}, .count = 64, .data = data};
  FILE *file = fopencookie(&to, "wb", (cookie_io_functions_t){.write = interrupted_write});
  cr_assert_not_null(file);
  cr_assert_eq(setvbuf(file, NULL, _IONBF, 0), 0);
  cr_assert_eq(npy_save(file, &array, &error), IO_OK, "%s", error.text);
  cr_assert_eq(fclose(file), 0);
  cr_assert_eq(to.used, 128 + sizeof data);
  cr_assert_eq(bytes_differ(to.bytes + 128, data, sizeof data), 0);
}

Test(npy, messages_are_one_printable_line) {
  char longest[5000];
  io_error error = {""};
  npy_array array;
  cr_assert_eq(npy_load("no\nsuch\x1b[31m\tf\xc3\xbcr \xe2\x82\xac \xff\xc0\x80\xed\xa0\x80\xc2\x85\xe2\x80\xa8.npy",
                        &array, &error),
               IO_INVALID);
  cr_assert_str_eq(
      error.text,
      "no\\x0asuch\\x1b[31m\\x09f\xc3\xbcr \xe2\x82\xac \\xff\\xc0\\x80\\xed\\xa0\\x80\\xc2\\x85\\xe2\\x80\\xa8.npy"
      ": cannot be opened: No such file or directory");
  memset(longest, '\n', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  cr_assert_eq(npy_load(longest, &array, &error), IO_INVALID);
  cr_assert_leq(strlen(error.text), sizeof error.text - 1);
  cr_assert_null(strchr(error.text, '\n'));
  cr_assert_eq(npy_load("missing.npy", &array, NULL), IO_INVALID);
}

#if defined(__SANITIZE_ADDRESS__)
#define CLATTN_TEST_ADDRESS_SPACE 0 /* the sanitizer itself needs terabytes of address space */
#elif defined(__has_feature)
#define CLATTN_TEST_ADDRESS_SPACE !__has_feature(address_sanitizer)
#else
#define CLATTN_TEST_ADDRESS_SPACE 1
#endif

#if CLATTN_TEST_ADDRESS_SPACE
Test(npy, out_of_memory) {
  const char *header = "{'descr': '<f4', 'fortran_order': False, 'shape': (536870912,)}";
  struct rlimit limit = {.rlim_cur = (rlim_t)1 << 30, .rlim_max = (rlim_t)1 << 30};
  write_npy(1, header, strlen(header), NULL, 0);
  cr_assert_eq(truncate(path, 2200000000), 0); /* takes no room on the disk */
  cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
  expect_refused("2 GiB", IO_NO_MEMORY, "no memory for 2147483648 bytes");
}
#endif
