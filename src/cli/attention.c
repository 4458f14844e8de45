/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include "report.h"
#include "results.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------------------ input */

int cli_attention_check_types(cli_state *cli, attention *job) {
  const cli_array *query = &job->inputs[INPUT_QUERY];
  for (int i = 0; i < 3; i++) {
    const cli_array *array = &job->inputs[i];
    if (array->path == NULL) continue;
    int status = cli_array_expect_float(cli, array);
    if (status != CLI_DONE) return status;
    if ((array->npy.type == NPY_F8) != (query->npy.type == NPY_F8)) {
      return cli_fail(cli, CLI_WRONG, "--%s: %s holds %s, but %s of --%s holds %s: float64 goes with float64 only",
                      array->option, array->path, cli_array_type_name(array), query->path, query->option,
                      cli_array_type_name(query));
    }
  }
  job->file_type = query->npy.type;
  job->compute = job->settings->compute != 0 ? (clattn_type)job->settings->compute : cli_array_compute_type(query);
  return CLI_DONE;
}

/* [B] numbers from 0 to `limit`, which is called `letter`. */
static int load_lengths(cli_state *cli, const attention *job, const char *option, const char *path, const char *letter,
                        size_t limit, cli_array *lengths) {
  if (path == NULL) return CLI_DONE;
  int status = cli_array_load(cli, option, path, job->settings->bf16, lengths);
  if (status == CLI_DONE) status = cli_array_expect_integer(cli, lengths);
  if (status == CLI_DONE) status = cli_array_expect_shape(cli, lengths, 1, &job->scores.batch, "[B]");
  if (status != CLI_DONE) return status;
  for (size_t b = 0; b < lengths->npy.count; b++) {
    int64_t length = cli_array_integer_at(lengths, b);
    if (length < 0 || (uint64_t)length > limit) {
      return cli_fail(cli, CLI_WRONG, "--%s: %s has %lld for batch entry %zu, which is not between 0 and %s = %zu",
                      option, path, (long long)length, b, letter, limit);
    }
  }
  return CLI_DONE;
}

static int load_slopes(cli_state *cli, attention *job) {
  const score_shape *scores = &job->scores;
  const size_t shape[2] = {scores->batch, scores->heads};
  cli_array *slopes = &job->slopes;
  if (job->settings->alibi == NULL) return CLI_DONE;
  int status = cli_array_load(cli, "alibi", job->settings->alibi, job->settings->bf16, slopes);
  if (status == CLI_DONE) status = cli_array_expect_float(cli, slopes);
  if (status != CLI_DONE) return status;
  if (slopes->npy.rank == 2) return cli_array_expect_shape(cli, slopes, 2, shape, "[B,H]");
  if (slopes->npy.rank == 1 && slopes->npy.shape[0] == scores->heads) return CLI_DONE;
  char seen[SHAPE_TEXT_SIZE];
  return cli_fail(cli, CLI_WRONG, "--alibi: %s has shape %s, where [H] = [%zu] or [B,H] = [%zu,%zu] was expected",
                  slopes->path, cli_shape_text(slopes->npy.rank, slopes->npy.shape, seen), scores->heads, scores->batch,
                  scores->heads);
}

int cli_attention_load_modifiers(cli_state *cli, attention *job) {
  const attention_settings *settings = job->settings;
  int status = cli_masks_load(cli, settings, &job->scores, &job->masks);
  if (status == CLI_DONE)
    status = load_lengths(cli, job, "kv-lengths", settings->kv_lengths, "S", job->scores.kv_len, &job->kv_lengths);
  if (status == CLI_DONE)
    status = load_lengths(cli, job, "q-lengths", settings->q_lengths, "T", job->scores.q_len, &job->q_lengths);
  return status == CLI_DONE ? load_slopes(cli, job) : status;
}

int cli_attention_check_outputs(cli_state *cli, const attention *job) {
  const result_file files[2] = {{.option = "out", .path = job->settings->out},
                                {.option = "weights-out", .path = job->settings->weights_out}};
  return cli_results_check(cli, files, 2);
}

/* ----------------------------------------------------------------------------------------------------------- device */

static bool is_measured(const attention_settings *settings) {
  return settings->json || settings->repeat.given;
}

static int check_fp64(cli_state *cli, const attention *job) {
  const clattn_device_info *device = clattn_context_device_info(job->context);
  const cli_array *query = &job->inputs[INPUT_QUERY];
  if (job->compute != CLATTN_FLOAT64 || device->fp64) return CLI_DONE;
  if (job->settings->compute == CLATTN_FLOAT64) {
    return cli_fail(cli, CLI_WRONG, "--compute fp64: the device %s has no fp64", device->name);
  }
  return cli_fail(cli, CLI_WRONG,
                  "--%s: %s holds float64, and the device %s has no fp64; --compute fp32 rounds the inputs to float32",
                  query->option, query->path, device->name);
}

int cli_attention_open(cli_state *cli, attention *job) {
  char message[sizeof cli->failure.text];
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.device = job->settings->device != NULL ? job->settings->device : cli->device;
  options.profiling = is_measured(job->settings);
  clattn_status status = clattn_context_create(&options, &job->context, message, sizeof message);
  return status == CLATTN_SUCCESS ? check_fp64(cli, job) : cli_fail_library(cli, status, message);
}

static int upload(cli_state *cli, attention *job, cli_array *array, clattn_tensor *tensor) {
  return array->path != NULL ? cli_array_upload(cli, job->context, array, job->compute, tensor) : CLI_DONE;
}

static int upload_all(cli_state *cli, attention *job) {
  int status = CLI_DONE;
  for (int i = 0; i < 3 && status == CLI_DONE; i++) status = upload(cli, job, &job->inputs[i], &job->tensors[i]);
  if (status == CLI_DONE) status = cli_masks_upload(cli, job->context, job->compute, &job->masks);
  if (status == CLI_DONE) status = upload(cli, job, &job->kv_lengths, &job->kv_lengths_tensor);
  if (status == CLI_DONE) status = upload(cli, job, &job->q_lengths, &job->q_lengths_tensor);
  return status == CLI_DONE ? upload(cli, job, &job->slopes, &job->slopes_tensor) : status;
}

static int create_result(cli_state *cli, attention *job, const char *option, clattn_type type, int rank,
                         const size_t *shape, clattn_tensor *tensor) {
  clattn_status status = clattn_tensor_create(job->context, type, rank, shape, NULL, tensor);
  if (status == CLATTN_SUCCESS) return CLI_DONE;
  char message[sizeof cli->failure.text], text[SHAPE_TEXT_SIZE];
  (void)snprintf(message, sizeof message, "--%s of shape %s: %s", option, cli_shape_text(rank, shape, text),
                 clattn_context_message(job->context));
  return cli_fail_library(cli, status, message);
}

static int create_results(cli_state *cli, attention *job, int output_rank, const size_t *output_shape) {
  const attention_settings *settings = job->settings;
  const score_shape *scores = &job->scores;
  const size_t columns = scores->kv_len + job->extra_keys;
  const size_t per_head[4] = {scores->batch, scores->heads, scores->q_len, columns};
  const size_t averaged[3] = {scores->batch, scores->q_len, columns};
  int status = CLI_DONE;
  if (settings->out != NULL) {
    clattn_type type = cli_device_type(job->file_type, job->compute);
    status = create_result(cli, job, "out", type, output_rank, output_shape, &job->output);
  }
  if (status != CLI_DONE || settings->weights_out == NULL) return status;
  return settings->average_weights ? create_result(cli, job, "weights-out", job->compute, 3, averaged, &job->weights)
                                   : create_result(cli, job, "weights-out", job->compute, 4, per_head, &job->weights);
}

/* ------------------------------------------------------------------------------------------------------------- call */

/* Far beyond every index, and far from what the library's sums overflow at. */
static const int64_t farthest = INT64_C(1) << 60;

static int64_t clamped(int64_t position) {
  return position < -farthest ? -farthest : position > farthest ? farthest : position;
}

/* a + b, which stays at the end of the range that it would leave. */
static int64_t saturated_sum(int64_t a, int64_t b) {
  if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
  if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
  return a + b;
}

/* Causal rule and windows bound keys by i + offset, i + offset - left and i + offset + right. Numbers of any size are
 * allowed; the three bounds are brought near, which leaves what they mean. */
static void fill_key_rules(const attention_settings *settings, clattn_options *options) {
  const bool by_offset = settings->causal_offset.given;
  int64_t offset = by_offset ? settings->causal_offset.value : 0;
  options->causal = by_offset ? CLATTN_CAUSAL_OFFSET : (clattn_causal)settings->causal;
  if (by_offset) options->causal_offset = clamped(offset);
  if (settings->window_left.given) {
    options->window_left = clamped(offset) - clamped(saturated_sum(offset, -settings->window_left.value));
  }
  if (settings->window_right.given) {
    options->window_right = clamped(saturated_sum(offset, settings->window_right.value)) - clamped(offset);
  }
}

static void fill_options(attention *job) {
  const attention_settings *settings = job->settings;
  clattn_options *options = &job->options;
  clattn_options_init(options);
  if (settings->scale.given) options->scale = settings->scale.value;
  options->masks = job->masks.masks;
  options->mask_count = job->masks.count;
  fill_key_rules(settings, options);
  if (settings->soft_cap.given) options->soft_cap = settings->soft_cap.value;
  if (settings->alibi != NULL) options->alibi_slopes = &job->slopes_tensor;
  if (settings->kv_lengths != NULL) options->kv_lengths = &job->kv_lengths_tensor;
  if (settings->q_lengths != NULL) options->q_lengths = &job->q_lengths_tensor;
  options->add_zero_key = job->add_zero_key;
  if (settings->dropout.given) options->dropout = settings->dropout.value;
  options->output_dropout = job->output_dropout;
  options->dropout_seed = settings->seed.value;
  options->compute = job->compute;
  if (settings->weights_out != NULL) options->weights = &job->weights;
  options->path = (clattn_path)settings->path;
}

/* The library takes [B,T,E]; sequence-first data are that with exchanged strides. */
static clattn_tensor call_view(const attention *job, clattn_tensor tensor) {
  return job->sequence_first ? clattn_tensor_transposed(tensor, 0, 1) : tensor;
}

static const char *device_reason(const cli_state *cli, const attention_settings *settings) {
  const char *selector = settings->device != NULL ? settings->device : cli->device;
  const char *variable = getenv("CLATTN_DEVICE");
  if (selector != NULL && selector[0] != '\0') return "named by --device";
  if (variable != NULL && variable[0] != '\0') return "named by CLATTN_DEVICE";
  return "none is named: the first GPU, else accelerator, else CPU";
}

static int run_call_of(cli_state *cli, attention *job) {
  const attention_settings *settings = job->settings;
  clattn_tensor views[3];
  for (int i = 0; i < 3; i++) views[i] = call_view(job, job->tensors[i]);
  clattn_tensor output = call_view(job, job->output);
  fill_options(job);
  const run_call call = {.context = job->context,
                         .mha = job->mha,
                         .query = &views[INPUT_QUERY],
                         .key = job->inputs[INPUT_KEY].path != NULL ? &views[INPUT_KEY] : NULL,
                         .value = job->inputs[INPUT_VALUE].path != NULL ? &views[INPUT_VALUE] : NULL,
                         .output = settings->out != NULL ? &output : NULL,
                         .options = &job->options,
                         .device_reason = device_reason(cli, settings)};
  return cli_run(cli, &call, settings->explain, is_measured(settings), settings->repeat.value, &job->report);
}

/* ---------------------------------------------------------------------------------------------------------- results */

static int print_report(cli_state *cli, const void *user) {
  static const char *const names[] = {"B", "H", "G", "T", "S", "D", "Dv"};
  const attention *job = user;
  const size_t extents[] = {job->scores.batch,  job->scores.heads, job->kv_heads,      job->scores.q_len,
                            job->scores.kv_len, job->head_dim,     job->value_head_dim};
  const run_facts facts = {.command = cli->command,
                           .device = clattn_context_device_info(job->context),
                           .compute = job->compute,
                           .repeat = job->settings->repeat.value,
                           .report = &job->report,
                           .extent_names = names,
                           .extents = extents,
                           .extent_count = sizeof extents / sizeof *extents};
  if (job->settings->json) return cli_print_json(cli, cli_run_json(&facts));
  if (!job->settings->repeat.given) return CLI_DONE;
  cli_print_times(&facts);
  return cli_flush_stdout(cli);
}

static int write_results(cli_state *cli, attention *job) {
  const attention_settings *settings = job->settings;
  result_file files[2] = {{.option = "out", .path = settings->out},
                          {.option = "weights-out", .path = settings->weights_out}};
  npy_type weights_type = job->file_type == NPY_F8 ? NPY_F8 : NPY_F4;
  int status = CLI_DONE;
  if (settings->out != NULL) {
    status = cli_array_download(cli, job->context, &job->output, job->file_type, &files[0].array);
  }
  if (status == CLI_DONE && settings->weights_out != NULL) {
    status = cli_array_download(cli, job->context, &job->weights, weights_type, &files[1].array);
  }
  if (status == CLI_DONE) status = cli_results_write(cli, files, 2, print_report, job);
  for (int i = 0; i < 2; i++) npy_free(&files[i].array);
  return status;
}

int cli_attention_run(cli_state *cli, attention *job, int output_rank, const size_t *output_shape) {
  int status = upload_all(cli, job);
  if (status == CLI_DONE) status = create_results(cli, job, output_rank, output_shape);
  if (status == CLI_DONE) status = run_call_of(cli, job);
  return status == CLI_DONE ? write_results(cli, job) : status;
}

void cli_attention_free(attention *job) {
  for (int i = 0; i < 3; i++) {
    cli_array_free(&job->inputs[i]);
    clattn_tensor_release(&job->tensors[i]);
  }
  cli_masks_free(&job->masks);
  cli_array_free(&job->kv_lengths);
  cli_array_free(&job->q_lengths);
  cli_array_free(&job->slopes);
  clattn_tensor_release(&job->kv_lengths_tensor);
  clattn_tensor_release(&job->q_lengths_tensor);
  clattn_tensor_release(&job->slopes_tensor);
  clattn_tensor_release(&job->output);
  clattn_tensor_release(&job->weights);
  clattn_mha_destroy(&job->mha);
  clattn_context_destroy(&job->context);
}
