/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_programs.h"

#include <stdint.h>
#include <string.h>

/* Not through the wrappers: these references are none of the library's. */
cl_int __real_clRetainProgram(cl_program program);
cl_int __real_clReleaseProgram(cl_program program);

enum { MOST_LIVE = 256, MOST_BUILT = 256 };

/* Sources and, once it is built, options. */
typedef struct program_key {
  cl_context context;
  uint64_t sources, options;
} program_key;

typedef struct program_entry {
  cl_program program; /* NULL: the entry is free */
  program_key key;
  cl_program stand_in; /* of a live one: the program that was built, which may be itself; NULL: not built */
} program_entry;

static program_entry live[MOST_LIVE];   /* what the library holds */
static program_entry built[MOST_BUILT]; /* retained, round robin */
static size_t next_built;

/* FNV-1a, 64 bits. */
static uint64_t add_hash(uint64_t hash, const void *data, size_t size) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
  return hash;
}

static const uint64_t no_hash = UINT64_C(0xCBF29CE484222325);

static program_entry *find_live(cl_program program) {
  for (size_t i = 0; i < MOST_LIVE; i++)
    if (live[i].program == program) return &live[i];
  return NULL;
}

void fault_program_made(cl_program program, cl_context context, cl_uint count, const char **texts,
                        const size_t *lengths) {
  program_entry *entry = find_live(NULL);
  if (entry == NULL) return; /* it is built each time, then */
  *entry = (program_entry){program, {context, no_hash, no_hash}, NULL};
  for (cl_uint i = 0; i < count; i++)
    entry->key.sources =
        add_hash(entry->key.sources, texts[i], lengths != NULL && lengths[i] > 0 ? lengths[i] : strlen(texts[i]));
}

void fault_program_gone(cl_program program) {
  program_entry *entry = find_live(program);
  if (entry != NULL) *entry = (program_entry){0};
}

int fault_program_is_known(cl_program program, const char *options) {
  program_entry *entry = find_live(program);
  if (entry == NULL) return 0;
  entry->key.options = add_hash(no_hash, options != NULL ? options : "", options != NULL ? strlen(options) : 0);
  for (size_t i = 0; i < MOST_BUILT; i++) {
    const program_key *key = &built[i].key;
    if (built[i].program == NULL || key->context != entry->key.context || key->sources != entry->key.sources ||
        key->options != entry->key.options)
      continue;
    entry->stand_in = built[i].program;
    return 1;
  }
  return 0;
}

void fault_program_built(cl_program program) {
  const program_entry *entry = find_live(program);
  program_entry *place = &built[next_built];
  if (entry == NULL || __real_clRetainProgram(program) != CL_SUCCESS) return;
  if (place->program != NULL) __real_clReleaseProgram(place->program);
  *place = *entry;
  next_built = (next_built + 1) % MOST_BUILT;
}

cl_program fault_program_stand_in(cl_program program) {
  const program_entry *entry = find_live(program);
  return entry != NULL && entry->stand_in != NULL ? entry->stand_in : program;
}
