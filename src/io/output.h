/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of output files that appear all together or not at all. Each is written under a temporary name in the folder of
 * its final name, and all are renamed once all are complete, so a failed program changes no file, and an output may
 * name an input.
 *
 *     output_set_create(&set, &error);
 *     output_set_add(set, "y.npy", &file, &error);      ... write to file ...
 *     output_set_commit(set, &error);
 *     output_set_destroy(&set);                          removes the temporaries if commit was not reached or failed
 */
#ifndef CLATTN_IO_OUTPUT_H
#define CLATTN_IO_OUTPUT_H

#include "error.h"

#include <stdio.h>

typedef struct output_set output_set;

/* An empty set. *set is NULL on failure.
 * Returns     IO_OK; IO_NO_MEMORY */
io_status output_set_create(output_set **set, io_error *error);

/* Adds an output. Symbolic links are followed (also to a file that does not exist yet): the file behind them is
 * replaced, the links stay. The permission bits of an existing file are kept, and its owner where the system allows it;
 * a new file gets 0666 less the umask. path        the final name: its folder must exist and be writable; if it exists
 * it must be a regular file that may be written to, and no other output of the set may lead to it file        the open
 * temporary, binary, owned by the set: do not close it Returns     IO_OK; IO_INVALID (the path cannot be written to, or
 * is in the set already); IO_SYSTEM; IO_NO_MEMORY. On failure *file is NULL and the set is as before */
io_status output_set_add(output_set *set, const char *path, FILE **file, io_error *error);

/* Flushes every file to the disk, closes it, and renames all. If the n-th rename fails, the first n - 1 are undone,
 * from backups where a file was replaced. The set takes no further output after this, whether it worked or not. Returns
 * IO_OK; IO_INVALID (a folder that vanished since); IO_SYSTEM (a full disk; a write that failed earlier on one of the
 *             files) */
io_status output_set_commit(output_set *set, io_error *error);

/* Removes what was not committed, closes what is open, and sets *set to NULL; NULL is fine. Leaves errno alone. */
void output_set_destroy(output_set **set);

/* For a handler of SIGINT or SIGTERM, on whichever thread it runs: removes the temporaries of a set that was not
 * committed. It only uses lock-free atomics and unlink(), both of which a handler may use. The set takes no output and
 * cannot be committed after it. Keep the pointer to the set where the handler finds it from output_set_create until
 * just before output_set_destroy. Returns     1: no output was or will be changed, end the program; 0: the set is being
 * committed or was, let the program go on to its end: it is all outputs by then */
int output_set_abandon(output_set *set);

#endif
