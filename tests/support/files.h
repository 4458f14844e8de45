/* SPDX-License-Identifier: Apache-2.0
 *
 * Files for tests, in a folder of their own. Each function fails the test if the system does.
 */
#ifndef CLATTN_TESTS_FILES_H
#define CLATTN_TESTS_FILES_H

#include <stddef.h>

enum { FILES_PATH_SIZE = 512 };

/* Makes an empty folder and writes its path to `folder`. */
void files_make_folder(char folder[FILES_PATH_SIZE]);

/* Removes a folder and all that is in it. */
void files_remove_folder(const char *folder);

/* path = folder/name */
void files_join(char path[FILES_PATH_SIZE], const char *folder, const char *name);

/* Writes and reads whole files. files_read returns memory to be freed, with a NUL behind its *size bytes. */
void files_write(const char *path, const void *data, size_t size);
char *files_read(const char *path, size_t *size);

/* 0 if two pieces of memory are alike, bit for bit: also for floats, where equal values may have unequal bits. */
int bytes_differ(const void *left, const void *right, size_t size);

/* How many names a folder has, "." and ".." apart. */
size_t files_count(const char *folder);

/* The bits 07777 of a file's mode, links followed. */
unsigned files_mode(const char *path);

#endif
