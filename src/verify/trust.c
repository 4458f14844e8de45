/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/trust.h"

#include <stdio.h>

#include "core/cache.h"
#include "verify/check_run.h"

/* A check that could not be run is no failed one: the device may have been short of memory. */
static clattn_status fail_to_run(clattn_context *context, clattn_status status, const char *name, const char *why) {
  return REFUSE(context, status, "the self check '%s' could not be run on %s: %.700s", name, context->info.name, why);
}

static clattn_status refuse_path(clattn_context *context, const char *name, const trust_record *record) {
  return REFUSE(
      context, CLATTN_SELF_CHECK_FAILED,
      "%s (driver %.64s) failed the self check '%s': %s; such calls are refused. `clattn verify` checks again; "
      "CLATTN_SELF_CHECK=off or no_self_check = 1 in the context's options turns the check off",
      context->info.name, context->info.driver, name, record->detail != NULL ? record->detail : "wrong results");
}

/* Runs what is not known yet, up to the first row that fails. */
static clattn_status check_rows(clattn_context *context, trust_use use, check_scope *scope, int *entered,
                                size_t *failed) {
  for (size_t row = 0; row < battery_count; row++) {
    if (!battery_is_needed(&battery[row], use.compute, use.features)) continue;
    trust_record *record = trust_find(context->trust, use.path, use.compute, row);
    if (record->source == TRUST_UNKNOWN) {
      clattn_check check;
      clattn_status status = *entered ? CLATTN_SUCCESS : check_scope_enter(context, scope);
      *entered |= status == CLATTN_SUCCESS;
      if (status == CLATTN_SUCCESS) status = check_run(context, use.path, &battery[row], use.compute, &check);
      *failed = row;
      if (status != CLATTN_SUCCESS) return status;
      trust_remember(record, &check);
    }
    *failed = row;
    if (record->result == CLATTN_CHECK_FAIL) return CLATTN_SELF_CHECK_FAILED;
  }
  return CLATTN_SUCCESS;
}

clattn_status trust_require(clattn_context *context, trust_use use) {
  check_scope scope;
  char why[sizeof context->text];
  int entered = 0;
  size_t failed = 0;
  if (context->unchecked != NULL) return CLATTN_SUCCESS;
  clattn_status status = trust_open(context);
  if (status != CLATTN_SUCCESS) return status;
  status = check_rows(context, use, &scope, &entered, &failed);
  (void)snprintf(why, sizeof why, "%s", context->text);
  if (entered) {
    check_scope_leave(context, &scope);
    trust_save(context->trust);
  }
  if (status == CLATTN_SUCCESS) return status;
  const char *name = battery_name(&battery[failed], use.compute);
  if (status != CLATTN_SELF_CHECK_FAILED) return fail_to_run(context, status, name, why);
  return refuse_path(context, name, trust_find(context->trust, use.path, use.compute, failed));
}

void trust_explain(const clattn_context *context, trust_use use, text_builder *text) {
  char path[CACHE_PATH_SIZE];
  size_t count = 0, from_disk = 0;
  double worst = 0;
  if (context->unchecked != NULL) {
    text_add(text, "self check: turned off by %s\n", context->unchecked);
    return;
  }
  if (context->trust == NULL) return;
  text_add(text, "self check: passed");
  for (size_t row = 0; row < battery_count; row++) {
    if (!battery_is_needed(&battery[row], use.compute, use.features)) continue;
    const trust_record *record = trust_find(context->trust, use.path, use.compute, row);
    if (record->source == TRUST_UNKNOWN || record->result != CLATTN_CHECK_PASS) continue;
    text_add(text, "%s '%s'", count++ > 0 ? "," : "", battery_name(&battery[row], use.compute));
    from_disk += record->source == TRUST_FROM_DISK;
    if (record->worst > worst) worst = record->worst;
  }
  text_add(text, " with errors up to %.2f of their bounds", worst);
  if (from_disk > 0 && cache_path(context->trust->file, path)) text_add(text, "; %zu known from %s", from_disk, path);
  text_add(text, "\n");
}
