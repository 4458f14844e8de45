/* SPDX-License-Identifier: Apache-2.0
 *
 * clattn: multi-head attention on any OpenCL device.
 *
 * What it computes, for B batch entries, H heads, T queries, S keys, head size D and value size Dv:
 *
 *     S[b,h,i,j] = scale * sum_d Q[b,h,i,d] * K[b,g,j,d]                 g = h / (H / G)
 *     S          = cap * tanh(S / cap) with a soft cap; minus slope * distance with ALiBi; plus every `add` mask
 *     P[b,h,i,:] = softmax(S[b,h,i,:]) over the scores that no mask and no rule blocks; then dropout
 *     O[b,h,i,:] = sum_j P[b,h,i,j] * V[b,g,j,:]
 *
 * (Vaswani et al., "Attention Is All You Need", 2017.) A whole layer puts three projections before it and one behind:
 *
 *     Q = Xq Wq^T + bq     K = Xk Wk^T + bk     V = Xv Wv^T + bv     Y = merge(O) Wo^T + bo
 *
 * A row whose keys are all blocked has probabilities 0 and O = 0, never NaN; the layer then returns bo for it.
 *
 * How a program goes:
 *
 *     clattn_context *context = NULL;
 *     clattn_context_create(NULL, &context, message, sizeof message);        a device is picked
 *     clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, host, &q);     a buffer with host data; k, v, out alike
 *     clattn_sdpa(context, &q, &k, &v, &out, NULL);                          enqueues and returns
 *     clattn_tensor_read(context, &out, host_out);                           waits for the result
 *     clattn_tensor_release(&q); ... clattn_context_destroy(&context);
 *
 * Rules that hold everywhere:
 * - Every function returns a clattn_status, unless it cannot fail. A call is checked whole before anything is enqueued,
 *   so a call refused with one of the CLATTN_INVALID_... statuses or CLATTN_UNSUPPORTED has changed nothing. After a
 *   failure of the device or the driver (CLATTN_OUT_OF_..., CLATTN_OPENCL_ERROR, CLATTN_CLBLAST_ERROR) the values in
 *   the outputs are undefined; the context can be used again.
 * - clattn_context_message() has the last failure in words, with the values seen. Functions without a context write
 *   that text to `message` instead: `size` bytes, always terminated, "" after success; NULL and 0 if it is not wanted.
 * - Calls that enqueue work go to the context's queue and return; the work runs behind what was enqueued before. A call
 *   that has to work in slices may wait for its own earlier slices.
 * - A context and all that was made with it may be used from one thread at a time. Different contexts are independent.
 * - Offsets, extents and strides count elements, never bytes. Sizes called "bytes" count bytes.
 * - Same inputs, same device, same path: the same bits, always.
 * - The library never prints, exits or aborts.
 */
#ifndef CLATTN_CLATTN_H
#define CLATTN_CLATTN_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(CLATTN_SHARED)
#ifdef CLATTN_BUILDING
#define CLATTN_API __declspec(dllexport)
#else
#define CLATTN_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define CLATTN_API __attribute__((visibility("default")))
#else
#define CLATTN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0

/* The version of the library that is linked, "major.minor.patch". Static storage. */
CLATTN_API
const char *clattn_version(void);

/* ------------------------------------------------------------------------------------------------------------- status
 * CLATTN_SUCCESS, CLATTN_INVALID_ARGUMENT, ...: name, value, text. */
#define CLATTN_STATUS_LIST(X)                                                                                          \
  X(SUCCESS, 0, "success")                                                                                             \
  X(INVALID_ARGUMENT, 1, "an argument is missing or out of range")                                                     \
  X(INVALID_SHAPE, 2, "extents do not fit together or are too large")                                                  \
  X(INVALID_TYPE, 3, "an element type does not fit here")                                                              \
  X(INVALID_BUFFER, 4, "a buffer is too small, of another context or of the wrong kind")                               \
  X(INVALID_OVERLAP, 5, "an output overlaps an input, another output or itself")                                       \
  X(INVALID_FILE, 6, "a file is missing, unreadable or malformed")                                                     \
  X(INVALID_DEVICE, 7, "no device matches what was asked for")                                                         \
  X(UNSUPPORTED, 8, "the device or this version cannot do what was asked")                                             \
  X(NO_DEVICE, 9, "this machine has no usable OpenCL device")                                                          \
  X(OUT_OF_HOST_MEMORY, 10, "the host is out of memory")                                                               \
  X(OUT_OF_DEVICE_MEMORY, 11, "the device is out of memory or resources")                                              \
  X(BUILD_FAILED, 12, "the driver could not build a kernel")                                                           \
  X(OPENCL_ERROR, 13, "an OpenCL call failed")                                                                         \
  X(CLBLAST_ERROR, 14, "a CLBlast call failed")                                                                        \
  X(FILE_ERROR, 15, "the system failed to write or read a file")                                                       \
  X(SELF_CHECK_FAILED, 16, "a check of the device against the reference failed")

typedef enum clattn_status {
#define CLATTN_STATUS_ENUM(name, value, text) CLATTN_##name = value,
  CLATTN_STATUS_LIST(CLATTN_STATUS_ENUM)
#undef CLATTN_STATUS_ENUM
} clattn_status;

/* The name ("CLATTN_INVALID_SHAPE") and the text of a status, for any value; static storage. */
CLATTN_API
const char *clattn_status_name(clattn_status status);
CLATTN_API
const char *clattn_status_text(clattn_status status);

/* ------------------------------------------------------------------------------------------------------------ devices
 * A device selector is "gpu", "cpu", "P:D" (platform and device index, as `clinfo -l` prints them) or a part of the
 * device's or platform's name, in any case. NULL or "" asks the environment variable CLATTN_DEVICE; without that it is
 * the first GPU, else the first accelerator, else the first CPU. */

typedef struct clattn_device_info {
  unsigned platform_index, device_index; /* "P:D" */
  char platform_name[128], platform_version[128];
  char name[128], vendor[128], version[128], driver[128];
  char kind[16];       /* which kernels it gets: "cpu" (explicit vectors, no barriers) or "gpu" (work-groups) */
  cl_device_type type; /* bits of CL_DEVICE_TYPE */
  cl_uint compute_units;
  cl_uint vector_width; /* native vector width for float */
  cl_ulong global_bytes, max_alloc_bytes, local_bytes;
  size_t max_work_group;
  int fp64, fp16, sub_groups; /* 1: the device says that it has it */
  int selected;               /* 1: the selector chooses this one */
  clattn_status status;       /* CLATTN_SUCCESS, or why this row is a platform or device that cannot be used; ... */
  char reason[256];           /* ... in words */
} clattn_device_info;

/* Lists every device of every platform in the driver's order, and a row with a reason for a platform that has none or
 * that fails.
 *
 * selector    marks one row `selected`; see above. No match marks none and is no failure.
 * devices     [capacity] rows to fill; may be NULL if capacity is 0
 * count       out: how many rows there are, more than `capacity` if the array was too short
 * Returns     SUCCESS; NO_DEVICE: no OpenCL platform at all (count is 0), the message says how to install one;
 *             INVALID_ARGUMENT; OUT_OF_HOST_MEMORY */
CLATTN_API
clattn_status clattn_list_devices(const char *selector, clattn_device_info *devices, size_t capacity, size_t *count,
                                  char *message, size_t message_size);

/* ------------------------------------------------------------------------------------------------------------ context
 * Everything hangs on a context: device, queue, built kernels, scratch memory, the last message. */

typedef struct clattn_context clattn_context;

/* Called with a line of text (built kernels with their logs, a path that was given up); never after the call that it
 * speaks of has returned. Must not call clattn. */
typedef void (*clattn_log_callback)(void *user, const char *line);

typedef struct clattn_context_options {
  size_t struct_size;      /* set by clattn_context_options_init */
  const char *device;      /* selector; NULL: see above. Must be NULL if `queue` is given */
  cl_command_queue queue;  /* your own in-order queue, which is retained; NULL: the library makes context and queue */
  int profiling;           /* 1: the library's own queue records event times */
  uint64_t scratch_limit;  /* bytes that one call may take from the pool; 0: what suits the device */
  clattn_log_callback log; /* NULL: none */
  void *log_user;
  int no_self_check; /* 1: trust every path unchecked, as CLATTN_SELF_CHECK=off does; see clattn_verify */
} clattn_context_options;

/* Sets every field to its default (all zero but the first). */
#define clattn_context_options_init(options) clattn_context_options_init_sized((options), sizeof(*(options)))
CLATTN_API
void clattn_context_options_init_sized(clattn_context_options *options, size_t struct_size);

/* Makes a context. options may be NULL.
 * Returns SUCCESS; INVALID_ARGUMENT (an out-of-order queue, queue and device given); INVALID_DEVICE: nothing matches,
 * and the message lists what there is; NO_DEVICE; OUT_OF_HOST_MEMORY; OPENCL_ERROR. *context is NULL on failure. */
CLATTN_API
clattn_status clattn_context_create(const clattn_context_options *options, clattn_context **context, char *message,
                                    size_t message_size);

/* Waits for the work it enqueued, releases all it holds, sets *context to NULL. A layer made from it keeps what it
 * needs. */
CLATTN_API
void clattn_context_destroy(clattn_context **context);

/* The last failure on this context in words, "" if there was none; valid until the next call on the context. */
CLATTN_API
const char *clattn_context_message(const clattn_context *context);

/* What the context works with. The handles are borrowed: retain them to keep them. */
CLATTN_API
cl_context clattn_context_cl(const clattn_context *context);
CLATTN_API
cl_command_queue clattn_context_queue(const clattn_context *context);
CLATTN_API
cl_device_id clattn_context_device(const clattn_context *context);
CLATTN_API
const clattn_device_info *clattn_context_device_info(const clattn_context *context);

/* Scratch memory in the pool now, and the most there ever was; trimming gives it back (calls in flight keep theirs). */
CLATTN_API
uint64_t clattn_context_scratch_bytes(const clattn_context *context);
CLATTN_API
uint64_t clattn_context_scratch_peak(const clattn_context *context);
CLATTN_API
void clattn_context_trim(clattn_context *context);

/* Waits until all that was enqueued has finished: SUCCESS, or what the device answered. */
CLATTN_API
clattn_status clattn_finish(clattn_context *context);

/* ------------------------------------------------------------------------------------------------------------ tensors
 * A tensor argument is a view of a buffer: element (i0, i1, ...) sits at offset + i0*stride[0] + i1*stride[1] + ...
 * Layouts are nothing but strides: [B,T,H,D] data, packed QKV, sequence-first [T,B,E] data, a sub-range of a bigger
 * buffer. Inputs may have stride 0 (the same data for every index) and may overlap; outputs may not overlap anything:
 * not the byte range of an input or of another output, and sorted by stride each dimension must step over all that the
 * smaller ones span. */

typedef enum clattn_type {
  CLATTN_FLOAT32 = 1,
  CLATTN_FLOAT64 = 2,  /* only on devices with fp64 */
  CLATTN_FLOAT16 = 3,  /* storage only, on every device: the arithmetic is FLOAT32. Stores round to nearest even, ... */
  CLATTN_BFLOAT16 = 4, /* ... and to infinity what is too large */
  CLATTN_BOOL8 = 5,    /* a byte; any value but 0 is true */
  CLATTN_INT32 = 6,
  CLATTN_INT64 = 7
} clattn_type;

enum { CLATTN_MAX_RANK = 4 };

typedef struct clattn_tensor {
  cl_mem buffer;
  size_t offset; /* of the first element */
  clattn_type type;
  int rank; /* 1 to CLATTN_MAX_RANK */
  size_t shape[CLATTN_MAX_RANK];
  size_t stride[CLATTN_MAX_RANK];
} clattn_tensor;

/* Bytes of one element; 0 for a value that is no type. And the type's name ("float32"). */
CLATTN_API
size_t clattn_type_size(clattn_type type);
CLATTN_API
const char *clattn_type_name(clattn_type type);

/* A contiguous row-major view that begins at `offset` elements into `buffer`. A rank above CLATTN_MAX_RANK gives 0. */
CLATTN_API
clattn_tensor clattn_tensor_view(cl_mem buffer, size_t offset, clattn_type type, int rank, const size_t *shape);

/* The same data with dimensions i and j exchanged. [T,B,E] data as the [B,T,E] view that the layer takes:
 * clattn_tensor_transposed(view_of_TBE, 0, 1). */
CLATTN_API
clattn_tensor clattn_tensor_transposed(clattn_tensor tensor, int i, int j);

/* A buffer of the context's device with a contiguous view of it. Extents of 0 are allowed.
 * host        the elements to put in it, row-major, copied before the call returns; NULL: undefined contents
 * Returns     SUCCESS; INVALID_ARGUMENT; INVALID_SHAPE; INVALID_TYPE; OUT_OF_DEVICE_MEMORY; OPENCL_ERROR */
CLATTN_API
clattn_status clattn_tensor_create(clattn_context *context, clattn_type type, int rank, const size_t *shape,
                                   const void *host, clattn_tensor *tensor);

/* Copy between a view (of any strides) and a row-major host array; they wait for what was enqueued and for the copy.
 * Elements of the buffer that the view does not name are left as they are.
 * Returns SUCCESS; INVALID_...; OUT_OF_HOST_MEMORY; OPENCL_ERROR. */
CLATTN_API
clattn_status clattn_tensor_read(clattn_context *context, const clattn_tensor *tensor, void *host);
CLATTN_API
clattn_status clattn_tensor_write(clattn_context *context, const clattn_tensor *tensor, const void *host);

/* Releases the buffer and clears the view; NULL and cleared views are fine. */
CLATTN_API
void clattn_tensor_release(clattn_tensor *tensor);

/* -------------------------------------------------------------------------------------------------------- attention */

/* A mask is a list of terms, and each says what its values mean: there is no default polarity (PyTorch's layer reads
 * true as "blocked", its function reads true as "takes part"). */
typedef enum clattn_mask_kind {
  CLATTN_MASK_BLOCK = 1, /* BOOL8: true blocks the score */
  CLATTN_MASK_KEEP = 2,  /* BOOL8: false blocks the score */
  CLATTN_MASK_ADD = 3    /* float type: added to the scaled score; a sum of minus infinity blocks. -3.4e38 does not */
} clattn_mask_kind;

/* `values` broadcasts to [B,H,T,S] as NumPy does: shapes line up at the right, an extent of 1 or a missing one repeats.
 * Nothing is copied out. So [T,S] and [H,T,S] are what they look like; keys [B,S] are the view [B,1,1,S]; PyTorch's
 * [B*H,T,S] in batch-major order is the same memory as [B,H,T,S]: give it that shape. */
typedef struct clattn_mask {
  clattn_mask_kind kind;
  clattn_tensor values;
} clattn_mask;

/* Which keys query i may see: key j when j <= i + offset. The rule's offset is 0 for TOP_LEFT, L - T for BOTTOM_RIGHT
 * (L being the entry's key count: S, or its kv_lengths value), and causal_offset for OFFSET. */
typedef enum clattn_causal {
  CLATTN_CAUSAL_NONE = 0,
  CLATTN_CAUSAL_TOP_LEFT = 1,
  CLATTN_CAUSAL_BOTTOM_RIGHT = 2,
  CLATTN_CAUSAL_OFFSET = 3
} clattn_causal;

typedef enum clattn_path {
  CLATTN_PATH_AUTO = 0,
  CLATTN_PATH_GEMM = 1, /* batched products by CLBlast and a softmax kernel; works everywhere */
  CLATTN_PATH_FUSED = 2 /* later: refused with CLATTN_UNSUPPORTED today */
} clattn_path;

#define CLATTN_SCALE_AUTO  HUGE_VAL /* 1 / sqrt(D) */
#define CLATTN_WINDOW_NONE (-1)

typedef struct clattn_options {
  size_t struct_size; /* set by clattn_options_init */

  double scale;             /* any finite number; CLATTN_SCALE_AUTO by default */
  const clattn_mask *masks; /* [mask_count] terms, applied in this order; add terms are summed in this order */
  size_t mask_count;
  clattn_causal causal;
  int64_t causal_offset; /* may be negative; only with CLATTN_CAUSAL_OFFSET */

  /* Keys from position - window_left to position + window_right, where position is i plus the causal rule's offset (i
   * without a rule). Both CLATTN_WINDOW_NONE by default. */
  int64_t window_left, window_right;

  /* Above 0: score = soft_cap * tanh(score / soft_cap), after scaling, before all that follows. 0: none. */
  double soft_cap;

  /* [H] or [B,H], a float type: adds -slope * |position - j| (Press et al., "Train Short, Test Long", 2022) */
  const clattn_tensor *alibi_slopes;

  /* [B] INT32 or INT64, on the device. Entry b has kv_lengths[b] keys, the rest is never read; its queries from
   * q_lengths[b] on give output and probabilities 0, in a layer, too. Values outside 0..S (or 0..T) act as the nearer
   * of the two. NULL: all have S (or T). */
  const clattn_tensor *kv_lengths, *q_lengths;

  int add_zero_key; /* 1: one more key and value of zeros behind all others */

  /* Dropout, for training. A probability is dropped with probability `dropout`, a kept one is divided by 1 - dropout;
   * so is the output of a layer with output_dropout. 0 <= p < 1. The bits depend on (seed, call, batch entry, head,
   * query, key) alone: they are the same on every device and path, and for two calls with the same seed and call.
   * Weights are those after dropout, as in PyTorch. */
  double dropout, output_dropout;
  uint64_t dropout_seed;
  uint32_t dropout_call;
  int inference; /* 1: no dropout, whatever the fields above say */

  /* Results beyond the output, NULL if not wanted. Their type is FLOAT64 when the arithmetic is, else FLOAT32. The S of
   * the weights counts the extra keys (bias_k, then the zero key), which come behind the others. */
  const clattn_tensor *weights;     /* the probabilities: rank 4 [B,H,T,S], or rank 3 [B,T,S] for the mean over heads */
  const clattn_tensor *log_sum_exp; /* [B,H,T]: ln sum_j exp(S[b,h,i,j]); minus infinity for a row without keys */

  clattn_type compute; /* CLATTN_FLOAT32 or CLATTN_FLOAT64 arithmetic; 0: FLOAT64 for FLOAT64 inputs, else FLOAT32 */
  clattn_path path;
  uint64_t scratch_limit; /* bytes that this call may take from the context's pool; 0: the context's own limit */

  /* Scratch memory of yours instead of the pool's, or NULL; clattn_plan tells how much is needed. scratch_bytes of it
   * from scratch_offset on may be used. Nobody else may use them until the call's work has ended. */
  cl_mem scratch;
  uint64_t scratch_offset, scratch_bytes;

  /* The call's work begins when these events are done. `event`, if not NULL, receives an event (yours to release) that
   * ends when the call's work has ended. */
  cl_uint wait_count;
  const cl_event *wait_list;
  cl_event *event;
} clattn_options;

/* Sets every field to its default. */
#define clattn_options_init(options) clattn_options_init_sized((options), sizeof(*(options)))
CLATTN_API
void clattn_options_init_sized(clattn_options *options, size_t struct_size);

/* Scaled dot-product attention.
 *
 * query       [B,H,T,D]    FLOAT32, FLOAT16 or BFLOAT16, in any mix; or FLOAT64, all of them
 * key         [B,G,S,D]    G divides H: head h reads key head h / (H / G)
 * value       [B,G,S,Dv]
 * output      [B,H,T,Dv]   may be NULL if options->weights or options->log_sum_exp is given
 * options     NULL: all defaults
 * B, T and S may be 0: without a query nothing is done; without a key the output is 0.
 * Returns     SUCCESS (the work is enqueued); INVALID_ARGUMENT, INVALID_SHAPE, INVALID_TYPE, INVALID_BUFFER,
 *             INVALID_OVERLAP, UNSUPPORTED, SELF_CHECK_FAILED (nothing was enqueued); OUT_OF_HOST_MEMORY,
 *             OUT_OF_DEVICE_MEMORY, BUILD_FAILED, OPENCL_ERROR, CLBLAST_ERROR */
CLATTN_API
clattn_status clattn_sdpa(clattn_context *context, const clattn_tensor *query, const clattn_tensor *key,
                          const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options);

/* What a call would do. */
typedef struct clattn_plan {
  clattn_path path;
  uint64_t scratch_bytes; /* device memory that the call takes from the context's pool */
  uint64_t library_bytes; /* upper bound of what CLBlast takes beside that while the call runs */
  uint64_t slices;        /* 1: the whole score matrix at once */
  char text[1536];        /* lines: path, kernels, tile shapes and memory, each with its reason */
} clattn_plan;

/* Checks the arguments as clattn_sdpa does, the self check included, and tells its plan; enqueues nothing of the call.
 * Returns as clattn_sdpa; after SELF_CHECK_FAILED the plan's text says why, and its path is CLATTN_PATH_AUTO. */
CLATTN_API
clattn_status clattn_sdpa_plan(clattn_context *context, const clattn_tensor *query, const clattn_tensor *key,
                               const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options,
                               clattn_plan *plan);

/* --------------------------------------------------------------------------------------------------------- parameters
 * The weights of a layer in host memory, without a device: made from arrays, drawn at random, loaded or saved. */

/* Widths of a layer. Fields at 0 take the value in brackets. Masks, rules, slopes and lengths speak of the S keys of the
 * input only; extra keys (bias_k, the zero key) are never blocked. */
typedef struct clattn_mha_config {
  size_t struct_size;    /* set by clattn_mha_config_init */
  size_t embed_dim;      /* E, width of the query input */
  size_t heads;          /* H */
  size_t kv_heads;       /* G [H], which must divide H */
  size_t head_dim;       /* D [E / H, which must be whole] */
  size_t value_head_dim; /* Dv [D] */
  size_t kdim, vdim;     /* Ek, Ev, widths of key and value input [E] */
  size_t out_dim;        /* Eo, width of the output [E] */
  int bias;              /* 1 (the default): bq, bk, bv and bo exist */
  int bias_kv;           /* 1: bias_k and bias_v exist: one more key and value behind the S, before a zero key */
} clattn_mha_config;

#define clattn_mha_config_init(config) clattn_mha_config_init_sized((config), sizeof(*(config)))
CLATTN_API
void clattn_mha_config_init_sized(clattn_mha_config *config, size_t struct_size);

/* The tensors of a layer, row-major, rows are output features: */
typedef enum clattn_parameter {
  CLATTN_WQ = 0,     /* [H*D, E]   */
  CLATTN_WK = 1,     /* [G*D, Ek]  */
  CLATTN_WV = 2,     /* [G*Dv, Ev] */
  CLATTN_WO = 3,     /* [Eo, H*Dv] */
  CLATTN_BQ = 4,     /* [H*D]      */
  CLATTN_BK = 5,     /* [G*D]      */
  CLATTN_BV = 6,     /* [G*Dv]     */
  CLATTN_BO = 7,     /* [Eo]       */
  CLATTN_BIAS_K = 8, /* [G*D]      */
  CLATTN_BIAS_V = 9, /* [G*Dv]     */
  CLATTN_PARAMETER_COUNT = 10
} clattn_parameter;

/* Names of the tensors in a .safetensors file. */
typedef enum clattn_naming {
  CLATTN_NAMING_AUTO = 0,  /* loading only: the one that fits */
  CLATTN_NAMING_TORCH = 1, /* in_proj_weight, in_proj_bias (or q_proj_weight, k_proj_weight, v_proj_weight),
                              out_proj.weight, out_proj.bias, bias_k, bias_v */
  CLATTN_NAMING_BERT = 2,  /* self.query.weight, self.query.bias, ..., output.dense.weight, output.dense.bias */
  CLATTN_NAMING_LLAMA = 3, /* q_proj.weight, k_proj.weight, v_proj.weight, o_proj.weight (.bias if there) */
  CLATTN_NAMING_WQ = 4     /* w_q.weight, w_k.weight, w_v.weight, w_o.weight (.bias if there); W_q... is read as well */
} clattn_naming;

typedef struct clattn_parameters clattn_parameters;

/* How many numbers the layer has: 4*E*E, plus 4*E with bias, in the plain case.
 * Returns SUCCESS; INVALID_ARGUMENT or INVALID_SHAPE (a width that is 0, does not divide or passes 64 bits). */
CLATTN_API
clattn_status clattn_parameter_count(const clattn_mha_config *config, uint64_t *count, char *message,
                                     size_t message_size);

/* From host arrays, which are copied: arrays[CLATTN_WQ] ... [CLATTN_BIAS_V], of any float type (16-bit ones are
 * widened, which is exact). Biases that the config does not have are NULL. Stacked weights [3*E,E] are three arrays
 * that follow each other.
 * Returns SUCCESS; INVALID_ARGUMENT; INVALID_SHAPE; INVALID_TYPE; OUT_OF_HOST_MEMORY. *parameters is NULL on failure,
 * here and below. */
CLATTN_API
clattn_status clattn_parameters_create(const clattn_mha_config *config, clattn_type type,
                                       const void *const arrays[CLATTN_PARAMETER_COUNT], clattn_parameters **parameters,
                                       char *message, size_t message_size);

/* Drawn at random in FLOAT32: Xavier uniform, U(-a, a) with a = gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio,
 * 2010), from Philox4x32-10 (Salmon et al., 2011); biases 0. The same seed gives the same bits on every machine.
 * gain        [4] for WQ, WK, WV, WO; NULL: all 1. 1/sqrt(2) is what PyTorch's stacked in_proj_weight amounts to.
 * Returns     SUCCESS; INVALID_ARGUMENT (a gain that is negative or no number); INVALID_SHAPE; OUT_OF_HOST_MEMORY */
CLATTN_API
clattn_status clattn_parameters_random(const clattn_mha_config *config, const double *gain, uint64_t seed,
                                       clattn_parameters **parameters, char *message, size_t message_size);

/* From a .safetensors file. FLOAT16 and BFLOAT16 tensors are widened to FLOAT32, which is exact; FLOAT64 stays.
 * prefix      put before each name as it stands, "encoder.layer.0.attention."; NULL: ""
 * heads       H: the file does not say it. Must divide the rows of WQ and the columns of WO
 * kv_heads    G; 0: H
 * Returns     SUCCESS; INVALID_ARGUMENT; INVALID_FILE (a miss lists the names present); INVALID_SHAPE; INVALID_TYPE;
 *             UNSUPPORTED; OUT_OF_HOST_MEMORY; FILE_ERROR */
CLATTN_API
clattn_status clattn_parameters_load(const char *path, const char *prefix, clattn_naming naming, size_t heads,
                                     size_t kv_heads, clattn_parameters **parameters, char *message,
                                     size_t message_size);

/* To a .safetensors file that appears whole or not at all. TORCH stacks Wq, Wk, Wv when their widths allow it.
 * Returns SUCCESS; INVALID_ARGUMENT (AUTO, a naming that has no place for these tensors); INVALID_FILE (the path cannot
 * be written to: a missing folder, no regular file); OUT_OF_HOST_MEMORY; FILE_ERROR (a full disk). */
CLATTN_API
clattn_status clattn_parameters_save(const clattn_parameters *parameters, const char *path, const char *prefix,
                                     clattn_naming naming, char *message, size_t message_size);

/* The widths, every field filled in; the type (FLOAT32 or FLOAT64); one tensor, NULL if the layer has none. */
CLATTN_API
void clattn_parameters_config(const clattn_parameters *parameters, clattn_mha_config *config);
CLATTN_API
clattn_type clattn_parameters_type(const clattn_parameters *parameters);
CLATTN_API
const void *clattn_parameters_data(const clattn_parameters *parameters, clattn_parameter which);
CLATTN_API
void clattn_parameters_destroy(clattn_parameters **parameters);

/* ------------------------------------------------------------------------------------------------------------ layer */

typedef struct clattn_mha clattn_mha;

/* A layer on the context's device; the parameters are copied to it, and may be destroyed then.
 * compute     FLOAT32 or FLOAT64: type of the weights on the device and of the arithmetic; 0: the parameters' own
 * Returns     SUCCESS; INVALID_ARGUMENT; INVALID_TYPE; UNSUPPORTED (no fp64); OUT_OF_HOST_MEMORY; OUT_OF_DEVICE_MEMORY;
 *             OPENCL_ERROR */
CLATTN_API
clattn_status clattn_mha_create(clattn_context *context, const clattn_parameters *parameters, clattn_type compute,
                                clattn_mha **mha);

/* A layer on weights that are on the device already. The buffers are retained, neither copied nor changed; whoever
 * writes to them changes the layer.
 * tensors     for each clattn_parameter a view, NULL where the config has none. A weight is [rows, columns], or
 *             [heads, size, columns] where heads do not follow each other; a bias is [rows] or [heads, size]. So
 *             PyTorch's stacked [3*E,E] is three views of one buffer, and a head-interleaved [H,3,D,E] is three views
 *             [H,D,E] with strides (3*D*E, E, 1).
 * compute     FLOAT32 with weights of FLOAT32, FLOAT16 and BFLOAT16 in any mix, or FLOAT64 with FLOAT64. FLOAT32 and
 *             FLOAT64 weights with dense rows are used where they are; others are widened into scratch memory each time
 * Returns     as clattn_mha_create, and INVALID_SHAPE, INVALID_BUFFER */
CLATTN_API
clattn_status clattn_mha_create_from_tensors(clattn_context *context, const clattn_mha_config *config,
                                             clattn_type compute,
                                             const clattn_tensor *const tensors[CLATTN_PARAMETER_COUNT],
                                             clattn_mha **mha);

/* Waits for the layer's work and releases it; sets *mha to NULL. */
CLATTN_API
void clattn_mha_destroy(clattn_mha **mha);

/* One tensor on the device (rank 2 for weights, 1 for biases), borrowed; write to it to change the layer. buffer is
 * NULL if there is none. */
CLATTN_API
clattn_tensor clattn_mha_parameter(const clattn_mha *mha, clattn_parameter which);

/* The layer: projections, heads split by a contiguous copy, attention, heads merged, out-projection.
 *
 * query       [B,T,E]    FLOAT32, FLOAT16 or BFLOAT16, in any mix; or FLOAT64, all of them
 * key         [B,S,Ek]   NULL: the query
 * value       [B,S,Ev]   NULL: the key
 * output      [B,T,Eo]   may be NULL if options->weights or options->log_sum_exp is given
 * options     as for clattn_sdpa, with D and S of the projected heads; compute must be 0 or the layer's own
 * Sequence-first data are [B,T,E] views with exchanged strides: see clattn_tensor_transposed.
 * Returns     as clattn_sdpa */
CLATTN_API
clattn_status clattn_mha_forward(clattn_mha *mha, const clattn_tensor *query, const clattn_tensor *key,
                                 const clattn_tensor *value, const clattn_tensor *output,
                                 const clattn_options *options);

/* As clattn_sdpa_plan, of clattn_mha_forward. */
CLATTN_API
clattn_status clattn_mha_plan(clattn_mha *mha, const clattn_tensor *query, const clattn_tensor *key,
                              const clattn_tensor *value, const clattn_tensor *output, const clattn_options *options,
                              clattn_plan *plan);

/* --------------------------------------------------------------------------------------------------------- self check
 * Drivers differ, and some compile a kernel wrongly. Before a path is used for the first time with some feature (a kind
 * of mask, a storage type, dropout, ...), small calls with that feature run and are compared with a scalar reference in
 * double. A path that fails is not used with that feature: another one takes over, or the call is refused with
 * CLATTN_SELF_CHECK_FAILED. What was found is kept in the context and on disk, per device, driver, platform and library
 * version: in a text file in the folder CLATTN_CACHE_DIR, else $XDG_CACHE_HOME/clattn, else ~/.cache/clattn. These
 * calls run in a queue of their own: they neither wait for what the caller enqueued nor hold it up. */

typedef enum clattn_check_result {
  CLATTN_CHECK_PASS = 0,
  CLATTN_CHECK_FAIL = 1,
  CLATTN_CHECK_UNSUPPORTED = 2 /* the device or this version cannot do it */
} clattn_check_result;

typedef struct clattn_check {
  const char *name; /* what is checked, "block mask"; static storage */
  clattn_path path;
  clattn_check_result result;
  double worst;     /* largest error over its bound: above 1 it failed */
  char detail[256]; /* what is wrong with the values seen, or why it is unsupported; "" after a pass */
} clattn_check;

/* Must not call clattn. `check` is valid until it returns. */
typedef void (*clattn_check_callback)(void *user, const clattn_check *check);

/* Runs every check of every path anew, whatever the context's settings, and waits for them; takes seconds. What it
 * finds replaces what was known.
 *
 * callback    called after each check; NULL: none
 * Returns     SUCCESS: nothing failed; SELF_CHECK_FAILED: the context's message has the first failure;
 *             OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, OPENCL_ERROR: the checks could not begin */
CLATTN_API
clattn_status clattn_verify(clattn_context *context, clattn_check_callback callback, void *user);

#ifdef __cplusplus
}
#endif

#endif
