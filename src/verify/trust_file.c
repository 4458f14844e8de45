/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of checks on disk: a text file for each device, driver, platform and library. It begins with what it is of
 * and ends with a number made from all before it; a file that does not is as good as none.
 *
 *     gemm  pass  0.132  block mask
 *     gemm  fail  5021.330  window: output[0,0,4,0] is ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/blas.h"
#include "core/cache.h"
#include "core/kernel_source.h"
#include "verify/trust.h"

#define FILE_LIMIT ((size_t)1 << 20)
enum { LINE_SIZE = 512, SUM_SIZE = 21 }; /* "sum ", 16 digits, end of line */

static const char *const path_names[TRUST_PATHS] = {"gemm", "fused"};
static const char *const result_names[3] = {"pass", "fail", "unsupported"};

/* ---------------------------------------------------------------------------------------------------------- records */

static size_t record_count(void) {
  return (size_t)TRUST_PATHS * 2 * battery_count;
}

trust_record *trust_find(const trust_state *state, clattn_path path, clattn_type compute, size_t row) {
  const size_t p = path == CLATTN_PATH_FUSED;
  return &state->records[(p * 2 + (compute == CLATTN_FLOAT64)) * battery_count + row];
}

static void set_record(trust_record *record, int from_disk, clattn_check_result result, double worst,
                       const char *detail) {
  free(record->detail);
  record->detail = NULL;
  record->source = from_disk ? TRUST_FROM_DISK : TRUST_FROM_CHECK;
  record->result = result;
  record->worst = worst;
  if (detail[0] == '\0') return;
  record->detail = malloc(strlen(detail) + 1); /* without memory for it the words are missing, no more */
  if (record->detail != NULL) memcpy(record->detail, detail, strlen(detail) + 1);
}

void trust_remember(trust_record *record, const clattn_check *check) {
  set_record(record, 0, check->result, check->worst, check->detail);
}

void trust_state_free(trust_state *state) {
  if (state == NULL) return;
  for (size_t i = 0; state->records != NULL && i < record_count(); i++) free(state->records[i].detail);
  free(state->records);
  free(state);
}

/* --------------------------------------------------------------------------------------------------------- identity */

/* All kernels: a library that is built from others is another one, whatever its version says. */
static uint64_t hash_kernels(void) {
  uint64_t hash = CACHE_HASH_START;
  for (size_t i = 0; i < clattn_kernel_source_count; i++)
    hash = cache_hash(hash, clattn_kernel_sources[i].text, clattn_kernel_sources[i].length);
  return hash;
}

static void identify(const clattn_context *context, trust_state *state) {
  const clattn_device_info *info = &context->info;
  text_builder text = text_begin(state->identity, sizeof state->identity);
  text_add(&text, "clattn self check, format 1\nlibrary   clattn %s, CLBlast %s, kernels %016llx\n", clattn_version(),
           blas_version(), (unsigned long long)hash_kernels());
  text_add(&text, "platform  %s, %s\ndevice    %s\ndriver    %s\n\n", info->platform_name, info->platform_version,
           info->name, info->driver);
  const uint64_t hash = cache_hash(CACHE_HASH_START, state->identity, strlen(state->identity));
  (void)snprintf(state->file, sizeof state->file, "self-check-%016llx.txt", (unsigned long long)hash);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* The place of a word in a list; `count` if it is not there. */
static size_t find_word(const char *word, size_t length, const char *const *list, size_t count) {
  size_t i = 0;
  while (i < count && (strlen(list[i]) != length || memcmp(list[i], word, length) != 0)) i++;
  return i;
}

/* The row and arithmetic that a name means; 0 if none. */
static int find_row(const char *name, size_t length, size_t *row, clattn_type *compute) {
  for (*row = 0; *row < battery_count; (*row)++) {
    const size_t found = find_word(name, length, battery[*row].names, 2);
    *compute = found == 1 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    if (found < 2) return 1;
  }
  return 0;
}

/* "12.345": digits and a point whatever the locale says, as it was written. */
static double read_number(const char *text) {
  char *end = NULL;
  const double whole = (double)strtoul(text, &end, 10);
  return *end == '.' ? whole + (double)strtoul(end + 1, NULL, 10) / 1000 : whole;
}

/* One line without its end. What is known already stays. */
static void read_line(trust_state *state, char *line) {
  const char *fields[3];
  size_t lengths[3], row = 0;
  clattn_type compute = CLATTN_FLOAT32;
  for (int i = 0; i < 3; i++) {
    fields[i] = line;
    lengths[i] = strcspn(line, " ");
    line += lengths[i];
    line += strspn(line, " ");
  }
  const char *colon = strstr(line, ": ");
  const size_t name_length = colon != NULL ? (size_t)(colon - line) : strlen(line);
  const size_t path = find_word(fields[0], lengths[0], path_names, TRUST_PATHS);
  const size_t result = find_word(fields[1], lengths[1], result_names, 3);
  if (path == TRUST_PATHS || result == 3 || !find_row(line, name_length, &row, &compute)) return;
  trust_record *record = trust_find(state, (clattn_path)(CLATTN_PATH_GEMM + path), compute, row);
  if (record->source != TRUST_UNKNOWN) return;
  set_record(record, 1, (clattn_check_result)result, read_number(fields[2]), colon != NULL ? colon + 2 : "");
}

static void read_file(trust_state *state) {
  size_t size = 0;
  const size_t head = strlen(state->identity);
  char sum[SUM_SIZE + 1], *data = cache_read(state->file, FILE_LIMIT, &size);
  if (data == NULL) return;
  if (size >= head + SUM_SIZE && memcmp(data, state->identity, head) == 0) {
    char *end = data + size - SUM_SIZE;
    (void)snprintf(sum, sizeof sum, "sum %016llx\n",
                   (unsigned long long)cache_hash(CACHE_HASH_START, data, (size_t)(end - data)));
    if (memcmp(end, sum, SUM_SIZE) == 0) {
      *end = '\0';
      char *next = NULL;
      for (char *line = data + head; (next = strchr(line, '\n')) != NULL; line = next + 1) {
        *next = '\0';
        read_line(state, line);
      }
    }
  }
  free(data);
}

clattn_status trust_open(clattn_context *context) {
  if (context->trust != NULL) return CLATTN_SUCCESS;
  trust_state *state = calloc(1, sizeof *state);
  if (state != NULL) state->records = calloc(record_count(), sizeof *state->records);
  if (state == NULL || state->records == NULL) {
    trust_state_free(state);
    return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for the results of %zu checks", record_count());
  }
  identify(context, state);
  read_file(state);
  context->trust = state;
  return CLATTN_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

static void write_line(text_builder *text, clattn_path path, clattn_type compute, size_t row,
                       const trust_record *record) {
  const double most = 999999; /* a number that is too long, or none, reads as this */
  const unsigned long thousandths = (unsigned long)((record->worst < most ? record->worst : most) * 1000 + 0.5);
  if (record->source == TRUST_UNKNOWN) return;
  text_add(text, "%-5s  %-11s  %lu.%03lu  %s%s", path_names[path - CLATTN_PATH_GEMM], result_names[record->result],
           thousandths / 1000, thousandths % 1000, battery_name(&battery[row], compute),
           record->detail != NULL ? ": " : "");
  /* A driver's text may have any bytes; one line it must stay. */
  for (const char *c = record->detail; c != NULL && *c != '\0'; c++) text_add(text, "%c", *c == '\n' ? ' ' : *c);
  text_add(text, "\n");
}

void trust_save(trust_state *state) {
  const size_t size = sizeof state->identity + record_count() * LINE_SIZE;
  char *data = malloc(size);
  if (data == NULL) return;
  read_file(state); /* another process may have added to it */
  text_builder text = text_begin(data, size);
  text_add(&text, "%s", state->identity);
  for (int p = 0; p < TRUST_PATHS; p++)
    for (int wide = 0; wide < 2; wide++)
      for (size_t row = 0; row < battery_count; row++) {
        const clattn_path path = (clattn_path)(CLATTN_PATH_GEMM + p);
        const clattn_type compute = wide ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
        write_line(&text, path, compute, row, trust_find(state, path, compute, row));
      }
  text_add(&text, "sum %016llx\n", (unsigned long long)cache_hash(CACHE_HASH_START, data, strlen(data)));
  (void)cache_write(state->file, data, strlen(data));
  free(data);
}
