/* SPDX-License-Identifier: Apache-2.0
 *
 * clattn_verify: the whole battery. */
#include <math.h>
#include <stdio.h>

#include "verify/check_run.h"
#include "verify/trust.h"

typedef struct verification {
  clattn_context *context;
  clattn_check_callback callback;
  void *user;
  size_t failed;
  clattn_check first; /* that failed */
} verification;

/* One row. One that cannot be run has failed here, but is not remembered so. */
static clattn_check_result verify_row(verification *run, clattn_path path, clattn_type compute, size_t row) {
  clattn_check check;
  clattn_context *context = run->context;
  trust_record *record = trust_find(context->trust, path, compute, row);
  const clattn_status status = check_run(context, path, &battery[row], compute, &check);
  if (status == CLATTN_SUCCESS) {
    trust_remember(record, &check);
  } else {
    check.result = CLATTN_CHECK_FAIL;
    check.worst = HUGE_VAL;
    (void)snprintf(check.detail, sizeof check.detail, "%s: %.200s", clattn_status_name(status), context->text);
  }
  if (check.result == CLATTN_CHECK_FAIL && run->failed++ == 0) run->first = check;
  if (run->callback != NULL) run->callback(run->user, &check);
  return check.result;
}

/* The plain row comes first: where the device or this version lacks a path or an arithmetic, it says so for all rows.
 */
static clattn_check_result verify_rows(verification *run, clattn_path path, clattn_type compute) {
  for (size_t row = 0; row < battery_count; row++) {
    if (!battery_has(&battery[row], compute)) continue;
    const clattn_check_result result = verify_row(run, path, compute, row);
    if (row == 0 && result == CLATTN_CHECK_UNSUPPORTED) return result;
  }
  return CLATTN_CHECK_PASS;
}

clattn_status clattn_verify(clattn_context *context, clattn_check_callback callback, void *user) {
  static const clattn_path paths[TRUST_PATHS] = {CLATTN_PATH_GEMM, CLATTN_PATH_FUSED};
  check_scope scope;
  verification run = {.context = context, .callback = callback, .user = user};
  clattn_status status = context_begin(context);
  if (status != CLATTN_SUCCESS) return status;
  status = trust_open(context);
  if (status == CLATTN_SUCCESS) status = check_scope_enter(context, &scope);
  if (status != CLATTN_SUCCESS) return status;
  for (int p = 0; p < TRUST_PATHS; p++)
    if (verify_rows(&run, paths[p], CLATTN_FLOAT32) == CLATTN_CHECK_PASS)
      (void)verify_rows(&run, paths[p], CLATTN_FLOAT64);
  check_scope_leave(context, &scope);
  trust_save(context->trust);
  if (run.failed == 0) return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_SELF_CHECK_FAILED, "%s (driver %.64s) failed %zu checks, the first '%s': %s",
                context->info.name, context->info.driver, run.failed, run.first.name, run.first.detail);
}
