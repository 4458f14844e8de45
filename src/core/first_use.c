/* SPDX-License-Identifier: Apache-2.0 */
#include "core/first_use.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* A mutex of the default kind that is set up statically and not locked twice has no way to fail. */
void first_use_lock(void) {
  (void)pthread_mutex_lock(&mutex);
}

void first_use_unlock(void) {
  (void)pthread_mutex_unlock(&mutex);
}
