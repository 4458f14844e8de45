/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  LINK_HOPS = 40,    /* symbolic links followed in a row; what Linux itself follows */
  NAME_ATTEMPTS = 64 /* names tried for a temporary */
};

/* Of names beside the target; of one length. */
#define TEMPORARY_ENDING ".tmp"
#define BACKUP_ENDING    ".old"

/* OPEN until the renaming begins (CLOSED) or a signal handler was first (ABANDONED). */
enum { OPEN, CLOSED, ABANDONED };

typedef struct output {
  struct output *next;
  FILE *file;               /* NULL: closed */
  char *shown;              /* end of the path as the user gave it */
  char *target;             /* final name, symbolic links followed */
  char *temporary, *backup; /* names in the target's folder */
  size_t folder_length;     /* bytes of `target` in front of its last part, with the '/' */
  dev_t folder_device;
  ino_t folder_inode;
  int has_backup;  /* `backup` is what `target` was */
  int renamed;     /* `target` is the new file */
  atomic_int live; /* `temporary` is a file of ours */
} output;

struct output_set {
  _Atomic(output *) first;
  atomic_int state;
};

io_status output_set_create(output_set **set, io_error *error) {
  *set = malloc(sizeof **set);
  if (*set == NULL) return io_fail(error, IO_NO_MEMORY, "no memory for a set of output files");
  atomic_init(&(*set)->first, NULL);
  atomic_init(&(*set)->state, OPEN);
  return IO_OK;
}

static void free_output(output *out) {
  if (out == NULL) return;
  free(out->shown);
  free(out->target);
  free(out->temporary);
  free(out->backup);
  free(out);
}

static io_status no_memory(const output *out, io_error *error) {
  return io_fail(error, IO_NO_MEMORY, "%s: out of memory", out->shown);
}

/* A failed system call on a file that could be opened is never the user's mistake. */
static io_status write_failed(const output *out, int code, const char *what, io_error *error) {
  io_status status = io_fail_errno(error, code, "%s: %s", out->shown, what);
  return status == IO_NO_MEMORY ? status : IO_SYSTEM;
}

/* Replaces out->target, a symbolic link, by what it points to. */
static io_status follow_link(output *out, io_error *error) {
  char link[4096];
  ssize_t length = readlink(out->target, link, sizeof link);
  if (length < 0 || length == (ssize_t)sizeof link)
    return io_fail_errno(error, length < 0 ? errno : ENAMETOOLONG, "%s: the link cannot be followed", out->shown);
  const char *slash = strrchr(out->target, '/');
  size_t folder = slash == NULL || link[0] == '/' ? 0 : (size_t)(slash - out->target) + 1;
  char *followed = malloc(folder + (size_t)length + 1);
  if (followed == NULL) return no_memory(out, error);
  memcpy(followed, out->target, folder);
  memcpy(followed + folder, link, (size_t)length);
  followed[folder + (size_t)length] = '\0';
  free(out->target);
  out->target = followed;
  return IO_OK;
}

static io_status not_regular(const output *out, mode_t mode, io_error *error) {
  return io_fail(error, IO_INVALID, "%s: exists and is %s; an output must be a regular file or a new name", out->shown,
                 S_ISDIR(mode) ? "a folder" : "no regular file");
}

/* Follows links to the final name. `info` receives what is there; *exists whether anything is. */
static io_status resolve(output *out, const char *path, struct stat *info, int *exists, io_error *error) {
  *exists = 0;
  /* Asked through the links first: some, such as /dev/stdout, lead to things that have no name. */
  if (stat(path, info) == 0 && !S_ISREG(info->st_mode)) return not_regular(out, info->st_mode, error);
  out->target = strdup(path);
  if (out->target == NULL) return no_memory(out, error);
  for (int hop = 0; hop <= LINK_HOPS; hop++) {
    size_t length = strlen(out->target);
    if (length == 0) return io_fail(error, IO_INVALID, "the name of an output is empty");
    if (out->target[length - 1] == '/') return io_fail(error, IO_INVALID, "%s: names a folder, not a file", out->shown);
    if (lstat(out->target, info) != 0)
      return errno == ENOENT ? IO_OK : io_fail_errno(error, errno, "%s: cannot be written", out->shown);
    if (!S_ISLNK(info->st_mode)) {
      *exists = 1;
      return S_ISREG(info->st_mode) ? IO_OK : not_regular(out, info->st_mode, error);
    }
    io_status status = follow_link(out, error);
    if (status != IO_OK) return status;
  }
  return io_fail_errno(error, ELOOP, "%s: cannot be written", out->shown);
}

/* Checks the folder and that no other output of the set is the same name in it. */
static io_status check_folder(const output_set *set, output *out, int exists, io_error *error) {
  const char *slash = strrchr(out->target, '/');
  struct stat info;
  io_status status = IO_OK;
  out->folder_length = slash == NULL ? 0 : (size_t)(slash - out->target) + 1;
  char *folder = out->folder_length > 0 ? strndup(out->target, out->folder_length) : strdup(".");
  if (folder == NULL) return no_memory(out, error);
  if (stat(folder, &info) != 0)
    status = io_fail_errno(error, errno, "%s: its folder %s", out->shown, io_path_tail(folder));
  else if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
    status = io_fail_errno(error, errno, "%s: its folder %s cannot be written to", out->shown, io_path_tail(folder));
  else if (exists && faccessat(AT_FDCWD, out->target, W_OK, AT_EACCESS) != 0)
    status = io_fail_errno(error, errno, "%s: exists and cannot be written", out->shown);
  free(folder);
  if (status != IO_OK) return status;
  out->folder_device = info.st_dev;
  out->folder_inode = info.st_ino;
  for (const output *other = atomic_load(&set->first); other != NULL; other = other->next)
    if (other->folder_device == out->folder_device && other->folder_inode == out->folder_inode &&
        strcmp(other->target + other->folder_length, out->target + out->folder_length) == 0)
      return io_fail(error, IO_INVALID, "%s: is the same file as another output, %s", out->shown, other->shown);
  return IO_OK;
}

/* A name in the target's folder that nothing else uses: process, time and a counter make it unique, O_EXCL proves it.
 * It is short, since the target's own name may be as long as names can be. NULL: out of memory. */
static char *temporary_name(const output *out, unsigned attempt) {
  struct timespec now = {0};
  size_t size = out->folder_length + 96;
  char *name = malloc(size);
  if (name == NULL) return NULL;
  clock_gettime(CLOCK_REALTIME, &now);
  memcpy(name, out->target, out->folder_length);
  snprintf(name + out->folder_length, size - out->folder_length, ".clattn-%ld-%llx-%lx-%u" TEMPORARY_ENDING,
           (long)getpid(), (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec, attempt);
  return name;
}

/* Opens the temporary; `mode` is masked by the umask as for every new file. */
static io_status open_temporary(output *out, mode_t mode, int *descriptor, io_error *error) {
  int code = EEXIST;
  *descriptor = -1;
  for (unsigned attempt = 0; *descriptor < 0 && attempt < NAME_ATTEMPTS; attempt++) {
    free(out->temporary);
    out->temporary = temporary_name(out, attempt);
    if (out->temporary == NULL) return no_memory(out, error);
    *descriptor = open(out->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    code = errno;
    if (*descriptor < 0 && code != EEXIST && code != EINTR) break;
  }
  if (*descriptor < 0) return io_fail_errno(error, code, "%s: no temporary file can be made in its folder", out->shown);
  atomic_store(&out->live, 1);
  return IO_OK;
}

/* Gives the temporary the owner and the permission bits of the file that it will replace. */
static io_status copy_permissions(const output *out, int descriptor, const struct stat *info, io_error *error) {
  /* Only a privileged process may keep a foreign owner; like every program that replaces files, we go on without. */
  if (fchown(descriptor, info->st_uid, info->st_gid) != 0) errno = 0;
  if (fchmod(descriptor, info->st_mode & 0777) == 0) return IO_OK;
  /* File systems without permission bits have nothing to keep. */
  if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) return IO_OK;
  return write_failed(out, errno, "its permission bits cannot be kept", error);
}

/* Makes the temporary and puts the output into the set. */
static io_status start_output(output_set *set, output *out, const struct stat *existing, io_error *error) {
  int descriptor;
  /* Nobody may look into the successor of a private file before it has its permission bits. */
  io_status status = open_temporary(out, existing != NULL ? 0600 : 0666, &descriptor, error);
  if (status == IO_OK && existing != NULL) status = copy_permissions(out, descriptor, existing, error);
  if (status == IO_OK) {
    out->file = fdopen(descriptor, "w+b");
    if (out->file == NULL) status = write_failed(out, errno, "cannot be opened", error);
  }
  if (status != IO_OK) {
    if (descriptor >= 0) {
      close(descriptor);
      unlink(out->temporary);
    }
    return status;
  }
  out->next = atomic_load(&set->first);
  atomic_store(&set->first, out);
  return IO_OK;
}

io_status output_set_add(output_set *set, const char *path, FILE **file, io_error *error) {
  struct stat info;
  sigset_t all, before;
  int exists;
  *file = NULL;
  if (atomic_load(&set->state) != OPEN)
    return io_fail(error, IO_INVALID, "%s: the set of outputs is closed", io_path_tail(path));
  output *out = calloc(1, sizeof *out);
  char *shown = strdup(io_path_tail(path));
  if (out == NULL || shown == NULL) {
    free(out);
    free(shown);
    return io_fail(error, IO_NO_MEMORY, "%s: out of memory", io_path_tail(path));
  }
  out->shown = shown;
  atomic_init(&out->live, 0);
  io_status status = resolve(out, path, &info, &exists, error);
  if (status == IO_OK) status = check_folder(set, out, exists, error);
  if (status == IO_OK) {
    /* A handler that ran between the making of a temporary and its entry into the set would not find it. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    status = start_output(set, out, exists ? &info : NULL, error);
    sigprocmask(SIG_SETMASK, &before, NULL);
  }
  if (status == IO_OK)
    *file = out->file;
  else
    free_output(out);
  return status;
}

/* Brings everything onto the disk, where a full one is noticed at the latest. */
static io_status flush(output *out, io_error *error) {
  io_status status = IO_OK;
  int failed = ferror(out->file), result;
  if (failed) status = io_fail(error, IO_SYSTEM, "%s: an earlier write failed", out->shown);
  do {
    errno = 0;
    result = fflush(out->file);
    if (result != 0 && errno == EINTR) clearerr(out->file);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && !failed) status = write_failed(out, errno, "cannot be written", error);
  do {
    result = fsync(fileno(out->file));
  } while (result != 0 && errno == EINTR);
  /* EINVAL: a file system that has nothing to synchronise. */
  if (status == IO_OK && result != 0 && errno != EINVAL)
    status = write_failed(out, errno, "cannot be written to the disk", error);
  result = fclose(out->file);
  out->file = NULL;
  if (status == IO_OK && result != 0) status = write_failed(out, errno, "cannot be closed", error);
  return status;
}

/* Keeps what `target` is under a second name. A hard link leaves it in its place until the new file takes it. */
static io_status keep_backup(output *out, io_error *error) {
  const size_t length = strlen(out->temporary);
  out->backup = strdup(out->temporary); /* unique up to its ending, so with another ending as well */
  if (out->backup == NULL) return no_memory(out, error);
  memcpy(out->backup + length - strlen(BACKUP_ENDING), BACKUP_ENDING, strlen(BACKUP_ENDING));
  if (link(out->target, out->backup) != 0) {
    if (errno == ENOENT) return IO_OK;
    /* No hard links here, or none to foreign files. */
    if (rename(out->target, out->backup) != 0)
      return errno == ENOENT ? IO_OK : write_failed(out, errno, "no backup can be kept", error);
  }
  out->has_backup = 1;
  return IO_OK;
}

static io_status publish(output *out, int with_backup, io_error *error) {
  struct stat info;
  if (lstat(out->target, &info) == 0 && !S_ISREG(info.st_mode)) return not_regular(out, info.st_mode, error);
  io_status status = with_backup ? keep_backup(out, error) : IO_OK;
  if (status != IO_OK) return status;
  if (rename(out->temporary, out->target) != 0)
    return io_fail_errno(error, errno, "%s: cannot be replaced", out->shown);
  out->renamed = 1;
  atomic_store(&out->live, 0);
  return IO_OK;
}

/* Makes `target` what it was before. */
static void undo(output *out, io_error *error) {
  if (out->has_backup) {
    if (rename(out->backup, out->target) != 0) {
      io_fail_errno(error, errno, "%s: cannot be restored after another output failed; its old content is in %s",
                    out->shown, io_path_tail(out->backup));
      return;
    }
    unlink(out->backup); /* if both are still one file, rename() does nothing */
  } else if (out->renamed && unlink(out->target) != 0) {
    io_fail_errno(error, errno, "%s: cannot be removed after another output failed", out->shown);
  }
}

io_status output_set_commit(output_set *set, io_error *error) {
  io_status status = IO_OK;
  int open = OPEN;
  output *first = atomic_load(&set->first);
  if (atomic_load(&set->state) != OPEN) return io_fail(error, IO_INVALID, "the set of outputs is closed");
  for (output *out = first; out != NULL && status == IO_OK; out = out->next) status = flush(out, error);
  /* From here on a signal handler leaves the set alone: half of it may be renamed. */
  if (!atomic_compare_exchange_strong(&set->state, &open, CLOSED))
    return io_fail(error, IO_SYSTEM, "interrupted by a signal before the outputs were complete");
  /* The last rename needs no backup: nothing behind it can fail. */
  for (output *out = first; out != NULL && status == IO_OK; out = out->next)
    status = publish(out, out->next != NULL, error);
  for (output *out = first; out != NULL; out = out->next) {
    if (status != IO_OK)
      undo(out, error);
    else if (out->has_backup)
      unlink(out->backup);
  }
  return status;
}

void output_set_destroy(output_set **set) {
  if (set == NULL || *set == NULL) return;
  int code = errno;
  for (output *out = atomic_load(&(*set)->first), *next; out != NULL; out = next) {
    next = out->next;
    if (out->file != NULL) fclose(out->file);
    if (atomic_load(&out->live)) unlink(out->temporary);
    free_output(out);
  }
  free(*set);
  *set = NULL;
  errno = code;
}

int output_set_abandon(output_set *set) {
  int state = OPEN, code = errno;
  if (!atomic_compare_exchange_strong(&set->state, &state, ABANDONED) && state == CLOSED) return 0;
  for (output *out = atomic_load(&set->first); out != NULL; out = out->next)
    if (atomic_load(&out->live)) unlink(out->temporary);
  errno = code;
  return 1;
}
