/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of the checks on a device, in a context and on disk. */
#ifndef CLATTN_VERIFY_TRUST_H
#define CLATTN_VERIFY_TRUST_H

#include "core/context.h"
#include "verify/battery.h"

/* Paths by number; AUTO is none. */
enum { TRUST_PATHS = 2 };

typedef struct trust_record {
  enum { TRUST_UNKNOWN, TRUST_FROM_CHECK, TRUST_FROM_DISK } source;
  clattn_check_result result;
  double worst;
  char *detail; /* owned; NULL: none */
} trust_record;

struct trust_state {
  trust_record *records; /* [TRUST_PATHS][2][battery_count] */
  char identity[1024];   /* the first lines of the file: what the results are of */
  char file[64];         /* its name in the cache folder */
};

/* Makes the context's state, if it has none yet, with what is on disk. */
clattn_status trust_open(clattn_context *context);

trust_record *trust_find(const trust_state *state, clattn_path path, clattn_type compute, size_t row);
void trust_remember(trust_record *record, const clattn_check *check);

/* Adds to the disk what is known here, and the other way round. */
void trust_save(trust_state *state);

#endif
