/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include "planted.h"

#include <clattn/clattn.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *sound, *faulty;
static size_t planted;

void planted_fault(const char *text, const char *fault) {
  sound = text;
  faulty = fault;
  planted = 0;
}

size_t planted_count(void) {
  return planted;
}

typedef cl_program(CL_API_CALL *create_program)(cl_context, cl_uint, const char **, const size_t *, cl_int *);

/* The loader's function of the same name. A function pointer cannot be cast from void *, but it can be copied. */
static create_program next_create_program(void) {
  void *symbol = dlsym(RTLD_NEXT, "clCreateProgramWithSource");
  create_program function;
  memcpy(&function, &symbol, sizeof function);
  return function;
}

/* All strings as one, to be freed. */
static char *join(cl_uint count, const char **strings, const size_t *lengths) {
  size_t total = 0, at = 0;
  for (cl_uint i = 0; i < count; i++) total += lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
  char *joined = malloc(total + 1);
  if (!joined) abort();
  for (cl_uint i = 0; i < count; i++) {
    const size_t length = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
    memcpy(joined + at, strings[i], length);
    at += length;
  }
  joined[at] = '\0';
  return joined;
}

/* The text with every `sound` replaced, to be freed. */
static char *replace(const char *text) {
  const size_t longer = strlen(faulty) > strlen(sound) ? strlen(faulty) - strlen(sound) : 0;
  size_t found = 0;
  for (const char *at = text; (at = strstr(at, sound)) != NULL; at += strlen(sound)) found++;
  char *out = malloc(strlen(text) + found * longer + 1), *to = out;
  if (!out) abort();
  for (const char *at; (at = strstr(text, sound)) != NULL; text = at + strlen(sound)) {
    memcpy(to, text, (size_t)(at - text));
    to += at - text;
    memcpy(to, faulty, strlen(faulty));
    to += strlen(faulty);
  }
  memcpy(to, text, strlen(text) + 1);
  planted += found;
  return out;
}

/* Must be seen by the libraries of this process, too: they are to find it before the loader's. */
__attribute__((visibility("default"))) CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(
    cl_context context, cl_uint count, const char **strings, const size_t *lengths, cl_int *error) {
  if (!sound) return next_create_program()(context, count, strings, lengths, error);
  char *joined = join(count, strings, lengths), *changed = replace(joined);
  const char *text = changed;
  cl_program program = next_create_program()(context, 1, &text, NULL, error);
  free(changed);
  free(joined);
  return program;
}
