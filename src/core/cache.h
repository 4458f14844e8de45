/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files that a later process may find again, in CLATTN_CACHE_DIR, else $XDG_CACHE_HOME/clattn, else
 * ~/.cache/clattn. A cache may lose anything at any time: nothing in here is an error, and who reads must be able to
 * tell damaged contents. */
#ifndef CLATTN_CORE_CACHE_H
#define CLATTN_CORE_CACHE_H

#include <stddef.h>
#include <stdint.h>

enum { CACHE_PATH_SIZE = 1024 };

/* Where a file of that name is or would be; 0 if no folder is set or the path is too long. */
int cache_path(const char *name, char path[CACHE_PATH_SIZE]);

/* The whole file with a NUL behind its *size bytes, to be freed; NULL if there is none that can be read or if it is
 * larger than `limit`. */
char *cache_read(const char *name, size_t limit, size_t *size);

/* Writes the whole file under a temporary name and renames it, making folders as needed: others see the old contents or
 * the new ones. 1 if that went well. */
int cache_write(const char *name, const void *data, size_t size);

/* A number that stands for a text, to name files by what they hold and to tell damage (FNV-1a, 64 bit: Fowler, Noll,
 * Vo). before: CACHE_HASH_START, or the number of the text in front of this one. */
#define CACHE_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t cache_hash(uint64_t before, const void *data, size_t size);

#endif
