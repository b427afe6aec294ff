/* SPDX-License-Identifier: Apache-2.0 */

/* clang-format off */
/*
 * Weft's C ABI: all of libweft.so. C89 and C++ (docs/c.md).
 *
 * Status    Every call that can fail returns a weft_status: 0 (WEFT_OK), or what went wrong; weft_last_error() has the
 *           text. A call that fails changes nothing, unless it says so.
 * Handles   weft_mesh* and its like name objects of the library; they point at nothing. What create, read, load, open,
 *           and calls with a last `out_` handle give, the caller destroys. NULL, a handle of another kind and one that
 *           was destroyed are answered with WEFT_BAD_HANDLE. Handles may be destroyed in any order.
 * Threads   One call at a time in an object and those that were made of it (a mesh, its learner, its agent); a second
 *           one gets WEFT_BUSY and does not wait. Objects apart may be used at once. Errors are those of the thread.
 *           No call may use an object while another thread destroys it: such a call is answered with WEFT_BAD_HANDLE or
 *           WEFT_BUSY, and a rightful call in an object made meanwhile may be answered with WEFT_BUSY once.
 * Memory    Buffers belong to the caller, and are read or written during the call alone. A result that does not fit is
 *           WEFT_TOO_SMALL: nothing is written but `out_needed`. With a NULL buffer of capacity 0, only the size is
 *           told. Texts are UTF-8 and end with 0, which sizes of texts count.
 * Structs   Begin with `size`, which the caller sets to sizeof; what is 0 or NULL takes its default. A library that
 *           knows fewer fields than are set answers WEFT_UNSUPPORTED. weft_input, weft_output, weft_coord,
 *           weft_score and weft_file_bytes begin without one and never grow.
 * Arrays    Are float32, row-major: [ticks or samples][sessions][width].
 */
/* clang-format on */
#ifndef WEFT_CAPI_WEFT_H
#define WEFT_CAPI_WEFT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1

/* Rows of core/errors.def, counted from 1; 1000 and above are of this interface. Values never change. */
enum {
  WEFT_OK = 0,
  WEFT_INTERNAL = 1,
  WEFT_INVALID_ARGUMENT = 2,
  WEFT_SHAPE_MISMATCH = 3,
  WEFT_OUT_OF_RANGE = 4,
  WEFT_PARSE_FAILED = 5,
  WEFT_UNKNOWN_NAME = 6,
  WEFT_DUPLICATE_NAME = 7,
  WEFT_TOO_LARGE = 8,
  WEFT_CORRUPT = 9,
  WEFT_UNSUPPORTED = 10,
  WEFT_NOT_FOUND = 11,
  WEFT_STORAGE = 12,
  WEFT_FULL = 13,
  WEFT_TIMED_OUT = 14,
  WEFT_NOT_FINITE = 15,
  WEFT_HALTED = 16,
  WEFT_INTERRUPTED = 17,
  WEFT_DIFFERS = 18,
  WEFT_BAD_HANDLE = 1000, /* NULL, of another kind, or destroyed */
  WEFT_BUSY = 1001,       /* another call is in the object */
  WEFT_TOO_SMALL = 1002,  /* the caller's buffer */
  WEFT_NO_MEMORY = 1003
};
typedef int weft_status;

typedef struct weft_network weft_network;         /* a description, to build meshes of */
typedef struct weft_mesh weft_mesh;               /* a network that runs */
typedef struct weft_learner weft_learner;         /* learning in a mesh's ticks */
typedef struct weft_agent weft_agent;             /* a mesh and its learner, kept in a directory */
typedef struct weft_snapshot weft_snapshot;       /* a mesh at one moment, in memory */
typedef struct weft_answer weft_answer;           /* what became of a command */
typedef struct weft_model weft_model;             /* a language model with its tokenizer */
typedef struct weft_environment weft_environment; /* a world to act in */

/* ---- The library ---- */

typedef struct weft_error {
  size_t size;
  weft_status code;
  const char* name;    /* "shape_mismatch" */
  const char* message; /* the object and both values */
} weft_error;

/* The last failure of a call of this thread; valid until its next one. Never NULL: `code` 0 where none failed. */
WEFT_API const weft_error* weft_last_error(void);
/* "shape_mismatch"; "unknown" for a number that is no status. */
WEFT_API const char* weft_status_name(weft_status status);
/* "0.1.0". */
WEFT_API const char* weft_version(void);

enum { WEFT_LOG_TRACE, WEFT_LOG_DEBUG, WEFT_LOG_INFO, WEFT_LOG_WARN, WEFT_LOG_ERROR, WEFT_LOG_OFF };
typedef void (*weft_log_function)(void* user, int level, const char* text);
/*
 * Lines of `level` and above go to `function`, from any thread, one at a time, and no more to stderr. NULL: to stderr
 * again, those of `level` and above. When it returns, the function before is not called any more. Must not be called by
 * the function itself.
 */
WEFT_API weft_status weft_set_log(weft_log_function function, void* user, int level);
/*
 * Instead of a function, for programs that no foreign thread may call into: lines of `level` and above are kept for
 * weft_next_log, the last 4096 of them. weft_set_log ends it; what is kept can be read on.
 */
WEFT_API weft_status weft_keep_log(int level);
/*
 * The oldest line that is kept, which is taken out as it fits the buffer. Waits for one, `nanoseconds` at most:
 * WEFT_TIMED_OUT. Where lines had to go, a line tells how many. `out_level` may be NULL.
 */
WEFT_API weft_status weft_next_log(uint64_t nanoseconds, int* out_level, char* buffer, size_t capacity,
                                   size_t* out_needed);

/*
 * A JSON array of devices, the CPU first: {"selector", "name", "missing"}, and of those that a driver reaches "driver",
 * "kind" and "memory_bytes". "missing" says why a device cannot be used; "": it can.
 */
WEFT_API weft_status weft_devices(char* buffer, size_t capacity, size_t* out_needed);

/*
 * Tells if results of this process may differ from x86-64's, of all calls since the last one of this (docs/numerics.md,
 * the tininess corner). 0: none does; so always on x86-64, and on AArch64 where nothing was flushed to zero. 1: one in
 * a great many may; so on AArch64 where something was, and always on RISC-V, where subnormal numbers stay, and in
 * WebAssembly (docs/web.md, "One result"): nothing there tells of them.
 */
WEFT_API weft_status weft_take_flushed_results(int* out_flushed);

/* ---- Networks ---- */

typedef struct weft_coord {
  uint32_t z, y, x, layer;
} weft_coord;

/* A network file's text (docs/formats/network.md) of `bytes` bytes; `source` names it in messages and may be NULL. */
WEFT_API weft_status weft_network_read(const char* json, size_t bytes, const char* source, weft_network** out_network);
/* A network file, or the network of an .entity file. */
WEFT_API weft_status weft_network_load(const char* path, weft_network** out_network);
/* An empty one, to be built layer by layer, in a grid of z * y * x cells with `layers` levels. */
WEFT_API weft_status weft_network_create(const char* name, uint32_t z, uint32_t y, uint32_t x, uint32_t layers,
                                         weft_network** out_network);
/* An input port of a shape, outermost axis first. */
WEFT_API weft_status weft_network_add_input(weft_network* network, const char* name, const size_t* shape, size_t axes);
/*
 * A layer, as an object of a network file's "layers": {"type": "dense", "at": [0,0,0,0], "out": 16, "from": ["bits"]}.
 * "repeat" adds many. Places and links are checked when a mesh is built.
 */
WEFT_API weft_status weft_network_add_layer(weft_network* network, const char* json);
WEFT_API weft_status weft_network_add_output(weft_network* network, const char* name, weft_coord at);
/* Another key of a network file: seed, device, supervision, learning, stream, reinforcement; `json` is its value. */
WEFT_API weft_status weft_network_set(weft_network* network, const char* key, const char* json);
/* Its network file. */
WEFT_API weft_status weft_network_text(weft_network* network, char* buffer, size_t capacity, size_t* out_needed);
WEFT_API weft_status weft_network_destroy(weft_network* network);

/* ---- Meshes ---- */

typedef struct weft_mesh_options {
  size_t size;
  size_t threads;       /* at most, the caller's included; 0: all cores; 1: the caller's alone */
  size_t sessions;      /* independent states over one set of weights; 0: 1 */
  const char* executor; /* auto, resident, graph, deterministic; NULL: auto */
  uint64_t executor_seed;
  const char* device;  /* cpu, vulkan, vulkan:N, vulkan:NAME; NULL: the network's */
  uint64_t max_memory; /* bytes that it may take by estimate; 0: no bound but the system's */
  int no_pinning;      /* 1: workers are not kept on their cores */
  int no_masters;      /* 1: quantized weights take their true size, and cannot learn */
} weft_mesh_options;

/* Values for a port: of `count` floats. */
typedef struct weft_input {
  const char* name;
  const float* values;
  size_t count;
} weft_input;
/* Buffer for what an output commits: of `count` floats. */
typedef struct weft_output {
  const char* name;
  float* values;
  size_t count;
} weft_output;

/* `options` may be NULL here and below. */
WEFT_API weft_status weft_mesh_build(weft_network* network, const weft_mesh_options* options, weft_mesh** out_mesh);
/* From a network file, or an .entity file with its weights and live state. */
WEFT_API weft_status weft_mesh_load(const char* path, const weft_mesh_options* options, weft_mesh** out_mesh);
/* The same of a file's bytes, which are copied. */
WEFT_API weft_status weft_mesh_load_bytes(const void* bytes, size_t count, const weft_mesh_options* options,
                                          weft_mesh** out_mesh);
/*
 * An .entity file; `live` 1: with sessions and all that ticks change, and, where a learner drives the mesh, what it
 * has: its options, the optimizer, errors under way, samples that wait for their targets (weft_learner_load goes on
 * with it). It is written durably.
 */
WEFT_API weft_status weft_mesh_save(weft_mesh* mesh, const char* path, int live);
WEFT_API weft_status weft_mesh_save_bytes(weft_mesh* mesh, int live, void* buffer, size_t capacity, size_t* out_needed);
WEFT_API weft_status weft_mesh_destroy(weft_mesh* mesh);

/* Puts values into a port; they stay until replaced. */
WEFT_API weft_status weft_mesh_set_input(weft_mesh* mesh, const char* port, size_t session, const float* values,
                                         size_t count);
/* Copies the values that an output committed last. */
WEFT_API weft_status weft_mesh_output(weft_mesh* mesh, const char* name, size_t session, float* values, size_t capacity,
                                      size_t* out_needed);
/* The same of any layer. */
WEFT_API weft_status weft_mesh_output_at(weft_mesh* mesh, weft_coord at, size_t session, float* values, size_t capacity,
                                         size_t* out_needed);

/* `ticks` ticks. A fault that halts the mesh stops it: WEFT_HALTED. Refused while a learner drives the mesh. */
WEFT_API weft_status weft_mesh_tick(weft_mesh* mesh, uint64_t ticks);
/* Ticks until so many nanoseconds have passed, at least one where there is any. */
WEFT_API weft_status weft_mesh_tick_for(weft_mesh* mesh, uint64_t nanoseconds, uint64_t* out_ticks);
/* Inputs [ticks][sessions][width], outputs likewise: the bits of setting inputs and ticking, `ticks` times over. */
WEFT_API weft_status weft_mesh_run(weft_mesh* mesh, const weft_input* inputs, size_t input_count, uint64_t ticks,
                                   const weft_output* outputs, size_t output_count);
/* One combinational pass over `rows` inputs, each as if held until settled; feedback reads zero. Touches no session. */
WEFT_API weft_status weft_mesh_forward(weft_mesh* mesh, const weft_input* inputs, size_t input_count, size_t rows,
                                       const weft_output* outputs, size_t output_count);
/* Goes on after a fault halted the mesh. */
WEFT_API weft_status weft_mesh_resume(weft_mesh* mesh);

WEFT_API weft_status weft_mesh_ticks(weft_mesh* mesh, uint64_t* out_ticks);
WEFT_API weft_status weft_mesh_sessions(weft_mesh* mesh, size_t* out_sessions);
/* 32 hex digits and a 0 of the state's XXH3-128: equal states, equal text. */
WEFT_API weft_status weft_mesh_state_hash(weft_mesh* mesh, size_t session, char* buffer, size_t capacity,
                                          size_t* out_needed);
/* The network as it was built: JSON of inputs, outputs and layers with shapes, types, parameters and latencies. */
WEFT_API weft_status weft_mesh_describe(weft_mesh* mesh, char* buffer, size_t capacity, size_t* out_needed);
/* Statistics of now: JSON of ticks, cells by status, faults, memory, device. */
WEFT_API weft_status weft_mesh_statistics(weft_mesh* mesh, char* buffer, size_t capacity, size_t* out_needed);

/* A new session at zero state; its index. */
WEFT_API weft_status weft_mesh_add_session(weft_mesh* mesh, size_t* out_session);
/* Later sessions move down by one. */
WEFT_API weft_status weft_mesh_remove_session(weft_mesh* mesh, size_t session);
WEFT_API weft_status weft_mesh_reset_session(weft_mesh* mesh, size_t session);
/* One session as a file's bytes; the mesh keeps it. */
WEFT_API weft_status weft_mesh_detach_session(weft_mesh* mesh, size_t session, void* buffer, size_t capacity,
                                              size_t* out_needed);
/* Adds a session that goes on where the detached one stood. `other_weights` 1: also one of a mesh with other weights.
 */
WEFT_API weft_status weft_mesh_attach_session(weft_mesh* mesh, const void* bytes, size_t count, int other_weights,
                                              size_t* out_session);

/* Values of a layer's parameter, row-major [out][in], or a vector; weft_mesh_describe lists them in order. */
WEFT_API weft_status weft_mesh_read_weights(weft_mesh* mesh, weft_coord at, size_t parameter, float* values,
                                            size_t capacity, size_t* out_needed);
WEFT_API weft_status weft_mesh_write_weights(weft_mesh* mesh, weft_coord at, size_t parameter, const float* values,
                                             size_t count);
/* Stores a layer's matrices in another type; `granularity` NULL: the type's. Commands that wait are executed first. */
WEFT_API weft_status weft_mesh_morph(weft_mesh* mesh, weft_coord at, const char* dtype, const char* granularity);

enum {
  WEFT_COMMAND_ENABLE,
  WEFT_COMMAND_DISABLE,
  WEFT_COMMAND_SET_PERIOD,  /* fire every `number` ticks */
  WEFT_COMMAND_SET_WEIGHTS, /* of layer at.layer: `parameter`, `values` */
  WEFT_COMMAND_RESET,
  WEFT_COMMAND_PROBE,    /* answers with the output of layer at.layer, session `number` */
  WEFT_COMMAND_SNAPSHOT, /* answers with all parameters of layer at.layer */
  WEFT_COMMAND_MORPH,    /* of layer at.layer: `dtype`, `granularity` */
  WEFT_COMMAND_SET_RATE  /* layer at.layer learns at `values`[0] times the learning rate; 0: it does not move */
};
typedef struct weft_command {
  size_t size;
  int kind;
  weft_coord at; /* the cell, and of some the layer in it */
  size_t parameter;
  uint64_t number;
  uint64_t not_before; /* tick */
  const char* dtype;
  const char* granularity;
  const float* values;
  size_t count;
} weft_command;

/* Sends a command to a cell, to be executed at its next tick. `out_answer` may be NULL: nobody waits for it. */
WEFT_API weft_status weft_mesh_command(weft_mesh* mesh, const weft_command* command, weft_answer** out_answer);
/*
 * `out_is_done` 1 when the command was executed, at the boundary before tick `out_tick`; NULL where not wanted. Fails
 * with the command's own error, where it was executed and failed.
 */
WEFT_API weft_status weft_answer_status(weft_answer* answer, int* out_is_done, uint64_t* out_tick);
/* Values of the answer. WEFT_NOT_FOUND: not yet. */
WEFT_API weft_status weft_answer_values(weft_answer* answer, float* values, size_t capacity, size_t* out_needed);
WEFT_API weft_status weft_answer_destroy(weft_answer* answer);

/* Buffer for a mesh's state; its memory is used again by each one taken into it. */
WEFT_API weft_status weft_snapshot_create(weft_snapshot** out_snapshot);
WEFT_API weft_status weft_snapshot_destroy(weft_snapshot* snapshot);
/* All that ticks change, and, where a learner or a command may have moved them, weights. */
WEFT_API weft_status weft_mesh_take_snapshot(weft_mesh* mesh, weft_snapshot* to);
/* Ticks after it are those after it was taken, to the bit. Also into another mesh of the same network. */
WEFT_API weft_status weft_mesh_restore_snapshot(weft_mesh* mesh, weft_snapshot* from);

/* ---- Learning ---- */

/* No label: the sample is run and not learned from. */
#define WEFT_NO_LABEL UINT32_MAX
/* Of weft_learner_predict: copies begin at zero. */
#define WEFT_NO_SESSION SIZE_MAX

/* The target of one output: labels or values, [samples][sessions that learn][tokens, heads or width]. */
typedef struct weft_target {
  size_t size;
  const char* output;
  const uint32_t* labels;
  size_t label_count;
  const float* values;
  size_t value_count;
  const float* gradient; /* of weft_learner_teach: instead of either, dLoss/d output */
  size_t gradient_count;
  const float* weights; /* of teach, and of learn with "weights": factors of the gradients; NULL: 1 */
  size_t weight_count;
} weft_target;

/* A prediction before it was learned from. */
typedef struct weft_score {
  uint64_t sample;
  uint32_t session, prediction, label;
  float loss;
  uint32_t token; /* or head */
  float anomaly;  /* score of "anomaly" of the section "learning"; 0 where that is off */
} weft_score;

typedef struct weft_learner_counts {
  size_t size;
  uint64_t samples, scored;                    /* given by learn, and finished */
  uint64_t observed, taught, forgone, expired; /* of observe; the others are open */
  uint64_t hold, latency, ticks_per_sample;    /* ticks */
} weft_learner_counts;

/* Measurements of a layer's last update; means are over sessions that learn (docs/learning.md). */
typedef struct weft_layer_diagnostics {
  size_t size;
  weft_coord at;
  float error;                   /* rms of what reached it: target - output, or of backprop the loss's gradient */
  float budget;                  /* link budget, 0 to 1; -1: the rule has no targets */
  float update, relative_update; /* rms of the change of its weights, and over that of the weights */
  float weight;                  /* rms of its weights after that */
  float reserved;
  uint64_t error_age; /* ticks since the layer published what the error speaks of */
} weft_layer_diagnostics;

/* `json`: a network file's section "learning"; NULL: the network's own. It drives the mesh until it is destroyed. */
WEFT_API weft_status weft_learner_build(weft_mesh* mesh, const char* json, weft_learner** out_learner);
/*
 * A mesh and its learner, as weft_mesh_save with `live` 1 wrote them while the learner drove the mesh, or `weft run`
 * did: what they do from here on is what they would have done, to the bit. Scores that wait are not in the file. Both
 * handles are the caller's. WEFT_NOT_FOUND: the file holds no learner. Sessions are the file's.
 */
WEFT_API weft_status weft_learner_load(const char* path, const weft_mesh_options* options, weft_mesh** out_mesh,
                                       weft_learner** out_learner);
/* The same of a file's bytes, which are copied. */
WEFT_API weft_status weft_learner_load_bytes(const void* bytes, size_t count, const weft_mesh_options* options,
                                             weft_mesh** out_mesh, weft_learner** out_learner);
WEFT_API weft_status weft_learner_destroy(weft_learner* learner);

/* Runs `samples` samples and learns. The size of targets[0] is that of each. */
WEFT_API weft_status weft_learner_learn(weft_learner* learner, const weft_input* inputs, size_t input_count,
                                        const weft_target* targets, size_t target_count, uint64_t samples);
/* Runs on until every sample is learned from (schedule pipelined). */
WEFT_API weft_status weft_learner_drain(weft_learner* learner);
/* Answers to `rows` inputs: nothing is learned, nothing changes. Copies begin as `session` stands. */
WEFT_API weft_status weft_learner_predict(weft_learner* learner, const weft_input* inputs, size_t input_count,
                                          size_t rows, const weft_output* outputs, size_t output_count, size_t session);
/* For networks of one input, one output and one session. */
WEFT_API weft_status weft_learner_predict_one(weft_learner* learner, const float* x, size_t x_count, float* y,
                                              size_t y_count);
WEFT_API weft_status weft_learner_learn_one(weft_learner* learner, const float* x, size_t x_count, uint32_t label);
WEFT_API weft_status weft_learner_learn_one_values(weft_learner* learner, const float* x, size_t x_count,
                                                   const float* values, size_t value_count);
/*
 * Anomaly score ("anomaly" of the section "learning") of such a sample, as things are: nothing is learned, nothing
 * changes. WEFT_INVALID_ARGUMENT: the section has none.
 */
WEFT_API weft_status weft_learner_score_one(weft_learner* learner, const float* x, size_t x_count, uint32_t label,
                                            float* out_score);
WEFT_API weft_status weft_learner_score_one_values(weft_learner* learner, const float* x, size_t x_count,
                                                   const float* values, size_t value_count, float* out_score);

/* One sample of each session enters, of which the target comes later or never ("late" of the section "learning"). */
WEFT_API weft_status weft_learner_observe(weft_learner* learner, const weft_input* inputs, size_t input_count,
                                          uint64_t* out_ticket);
/* The answer to it: [sessions][width]. WEFT_NOT_FOUND: not there yet (schedule pipelined). */
WEFT_API weft_status weft_learner_answer(weft_learner* learner, uint64_t ticket, const char* output, float* values,
                                         size_t capacity, size_t* out_needed);
/* Its target, at last. WEFT_TIMED_OUT: it has expired. */
WEFT_API weft_status weft_learner_teach(weft_learner* learner, uint64_t ticket, const weft_target* targets,
                                        size_t target_count);
/* None will come. */
WEFT_API weft_status weft_learner_forgo(weft_learner* learner, uint64_t ticket);
/* Tickets that expired since scores were last cleared. */
WEFT_API weft_status weft_learner_expired(weft_learner* learner, uint64_t* tickets, size_t capacity,
                                          size_t* out_needed);

/* Scores of finished samples since they were last cleared. */
WEFT_API weft_status weft_learner_scores(weft_learner* learner, weft_score* scores, size_t capacity,
                                         size_t* out_needed);
WEFT_API weft_status weft_learner_clear_scores(weft_learner* learner);
/* Fills as much as `out_counts->size` says. */
WEFT_API weft_status weft_learner_count(weft_learner* learner, weft_learner_counts* out_counts);
/*
 * 1: layers are measured as they learn, from now on, which takes time and a copy of all weights; 0: no more. The bits
 * stay. Steps that a device runs are not measured.
 */
WEFT_API weft_status weft_learner_measure(weft_learner* learner, int is_on);
/*
 * The layers that an error has reached since, in the network's order. The size of layers[0] is that of each;
 * `capacity` and `out_needed` count layers.
 */
WEFT_API weft_status weft_learner_diagnostics(weft_learner* learner, weft_layer_diagnostics* layers, size_t capacity,
                                              size_t* out_needed);

/* ---- Agents ---- */

typedef struct weft_agent_options {
  size_t size;
  const weft_mesh_options* mesh;
  const char* durability;    /* tick, interval, interval=2s, checkpoint; NULL: interval */
  const char* identity;      /* must be the same whenever the directory is opened */
  size_t keep;               /* checkpoints; 0: 3 */
  uint64_t checkpoint_every; /* ticks; 0: by bytes of the journal, and each 100,000 of an agent that acts */
  uint64_t checkpoint_bytes; /* 0: 256 MiB */
  int no_learning;           /* 1: although the network has a section "learning" */
  int salvage;               /* 1: goes on where a damaged journal ends */
} weft_agent_options;

/*
 * The agent in `directory`, to the bit where it stood, also after a crash; a new one of `network` where the directory
 * is empty or missing. `network` NULL: the one that the directory has. `no_learning` stays as the directory began.
 */
WEFT_API weft_status weft_agent_open(const char* directory, weft_network* network, const weft_agent_options* options,
                                     weft_agent** out_agent);
/*
 * Its mesh and its learner, for the calls above; each one that changes something goes into the journal. Not for an
 * agent's: run, write_weights and morph (there are commands), save, snapshots. Handles of the caller, to be destroyed.
 */
WEFT_API weft_status weft_agent_mesh(weft_agent* agent, weft_mesh** out_mesh);
/* WEFT_NOT_FOUND: it does not learn. */
WEFT_API weft_status weft_agent_learner(weft_agent* agent, weft_learner** out_learner);
/* Waits until everything so far survives a power cut. */
WEFT_API weft_status weft_agent_acknowledge(weft_agent* agent);
/* Takes a checkpoint, and waits until it is on the device. */
WEFT_API weft_status weft_agent_checkpoint(weft_agent* agent);
/*
 * Acts so many times in the environment of the network's section "reinforcement", and learns from it; the journal has
 * it as one record. WEFT_UNSUPPORTED: there is none.
 */
WEFT_API weft_status weft_agent_act(weft_agent* agent, uint64_t steps);
/* Appends an annotation to the journal (a reward, a seed). */
WEFT_API weft_status weft_agent_note(weft_agent* agent, const char* topic, const char* text);
/* Appends tick and state hash, for `weft replay --verify` and `weft diff` to compare. */
WEFT_API weft_status weft_agent_mark(weft_agent* agent);
/* JSON of positions, bytes of the journal, failures, and "reinforcement": steps, episodes, mean_return; or null. */
WEFT_API weft_status weft_agent_statistics(weft_agent* agent, char* buffer, size_t capacity, size_t* out_needed);
/*
 * Waits until everything survives a power cut, ends it, and destroys the handle; handles of its mesh and learner then
 * answer WEFT_BAD_HANDLE. WEFT_STORAGE: not everything could be written; it is ended all the same.
 */
WEFT_API weft_status weft_agent_close(weft_agent* agent);

/* ---- Environments ---- */

typedef struct weft_environment_options {
  size_t size;
  uint32_t length;   /* steps between bit and question (memory_chain); 0: 16. Of a turn (turns, chase); 0: 20000 */
  uint32_t reserved; /* 0 */
} weft_environment_options;

typedef struct weft_environment_shape {
  size_t size;
  size_t observations; /* numbers of an observation */
  size_t choices;      /* of an action that is one of several; 0: it is values */
  size_t values;       /* of such an action */
  uint64_t limit;      /* steps after which an episode is truncated; 0: none */
} weft_environment_shape;

typedef struct weft_environment_result {
  size_t size;
  double reward;
  int terminated; /* 1: the episode has come to its end, nothing follows */
  int truncated;  /* 1: it is left at its limit */
  uint64_t steps; /* of this episode */
} weft_environment_result;

/* JSON of the worlds that there are: [{"name", "observations", "choices", "values", "limit"}]. */
WEFT_API weft_status weft_environments(char* buffer, size_t capacity, size_t* out_needed);
/*
 * One of them: cartpole, acrobot, mountain_car, pendulum, catch_ball, memory_chain, falling, lanes, shooter, snake,
 * turns (falling and lanes), chase. The same bits on every machine.
 */
WEFT_API weft_status weft_environment_create(const char* name, const weft_environment_options* options,
                                             weft_environment** out_environment);
WEFT_API weft_status weft_environment_destroy(weft_environment* environment);
/* Fills as much as `out_shape->size` says. */
WEFT_API weft_status weft_environment_describe(weft_environment* environment, weft_environment_shape* out_shape);
/* Begins an episode. All of its draws are a function of seed and episode; turns go by the steps of all episodes. */
WEFT_API weft_status weft_environment_reset(weft_environment* environment, uint64_t seed, uint64_t episode);
/*
 * Acts: by `choice`, or, where `choices` is 0, by `values`. Fills as much as `out_result->size` says.
 * WEFT_INVALID_ARGUMENT: no episode has begun, or it has ended.
 */
WEFT_API weft_status weft_environment_step(weft_environment* environment, uint32_t choice, const float* values,
                                           size_t value_count, weft_environment_result* out_result);
WEFT_API weft_status weft_environment_observation(weft_environment* environment, float* values, size_t capacity,
                                                  size_t* out_needed);
/* The numbers that the world consists of, for a picture of it. */
WEFT_API weft_status weft_environment_state(weft_environment* environment, double* values, size_t capacity,
                                            size_t* out_needed);
/* The world as bytes, and back: it goes on as it would have. WEFT_CORRUPT, and of another world
 * WEFT_INVALID_ARGUMENT: nothing changes. */
WEFT_API weft_status weft_environment_save(weft_environment* environment, void* buffer, size_t capacity,
                                           size_t* out_needed);
WEFT_API weft_status weft_environment_restore(weft_environment* environment, const void* bytes, size_t count);
/* 32 hex digits and a 0: equal worlds, equal text. */
WEFT_API weft_status weft_environment_hash(weft_environment* environment, char* buffer, size_t capacity,
                                           size_t* out_needed);

/* ---- Language models ---- */

typedef struct weft_model_options {
  size_t size;
  const weft_mesh_options* mesh;
  const char* tokenizer; /* a file or folder that has it; NULL: the model's own */
} weft_model_options;

/* Opens what `weft import` made, or a Hugging Face folder or GGUF file that it takes (docs/models.md). */
WEFT_API weft_status weft_model_load(const char* path, const weft_model_options* options, weft_model** out_model);
/* A file of a model: its name without folders, and its content. */
typedef struct weft_file_bytes {
  const char* name;
  const void* bytes;
  size_t count;
} weft_file_bytes;
/*
 * The same of files in memory: one, of weft import or a GGUF file, or those of a folder by their names (config.json,
 * model.safetensors, tokenizer.json). They are copied in memory and given back before this returns. Linux only.
 */
WEFT_API weft_status weft_model_load_bytes(const weft_file_bytes* files, size_t count,
                                           const weft_model_options* options, weft_model** out_model);
WEFT_API weft_status weft_model_destroy(weft_model* model);
/* Ids of a text's tokens, with those that the model expects around it. */
WEFT_API weft_status weft_model_tokenize(weft_model* model, const char* text, uint32_t* ids, size_t capacity,
                                         size_t* out_needed);
/* The text of tokens; ids that stand for nothing are passed over. */
WEFT_API weft_status weft_model_detokenize(weft_model* model, const uint32_t* ids, size_t count, char* buffer,
                                           size_t capacity, size_t* out_needed);

/* Defaults and bounds are those of `weft generate` (docs/cli.md); 0 of tokens, temperature, top_k, top_p, min_p,
 * penalty_window is the default. */
typedef struct weft_generate_options {
  size_t size;
  uint64_t tokens;    /* to write, at most */
  double temperature; /* of the draw */
  uint64_t top_k;     /* tokens that are drawn from, at most; UINT64_MAX: all */
  double top_p;       /* likeliest tokens that are kept until their shares reach this; 1: all */
  double min_p;       /* least share of a token, in parts of the likeliest one's; below 0: none */
  uint64_t seed;
  uint64_t context; /* tokens that are remembered; 0: as many as are wanted */
  const char* const* stops;
  size_t stop_count;
  int is_greedy;    /* 1: always the likeliest token */
  int ignores_ends; /* 1: goes on after a token that ends a text */
  uint64_t max_memory;
  double typical_p;          /* tokens of the usual surprise, until their shares exceed this; 0: all */
  double repetition_penalty; /* divides logits of tokens that were there, multiplies those below 0; 0: none */
  double presence_penalty;   /* taken off logits of tokens that were there */
  double frequency_penalty;  /* and for each time that they were there */
  uint64_t penalty_window;   /* tokens that penalties look back; UINT64_MAX: all */
  uint64_t no_repeat_ngram;  /* tokens of an n-gram that must not come twice; 0: none */
  const uint32_t* bias_ids;  /* tokens and what is added to their logits; -INFINITY: never */
  const float* biases;
  size_t bias_count;
  const char* grammar;     /* GBNF that the text follows (docs/grammars.md); NULL: none */
  const char* json_schema; /* a JSON schema; the text is JSON that it takes; NULL: none */
  /*
   * Whose values the fields that are 0 have, and the order of steps: "llama.cpp", as NULL, or "hf": those of the
   * model's generation_config.json and of transformers. Below, numbers that are less than 0 are 0.
   */
  const char* preset;
  const char* samplers;     /* the steps in their order, such as "penalties;top_k;temperature"; NULL: the preset's */
  double dynatemp_range;    /* the temperature follows the entropy, from as much below to as much above */
  double dynatemp_exponent; /* power of the entropy that it follows */
  double top_n_sigma;       /* standard deviations below the largest logit that logits may be; 0: any */
  double xtc_probability;   /* part of the draws that leave out all tokens of xtc_threshold but the least likely one */
  double xtc_threshold;
  double mirostat_tau;   /* surprise that mirostat aims at, in bits */
  double mirostat_eta;   /* rate at which it follows */
  double dry_multiplier; /* taken off logits of tokens that go on with a repetition */
  double dry_base;       /* times as much for each token more of it */
  int64_t mirostat;      /* 1, 2: instead of all other steps but the temperature */
  int64_t dry_allowed_length;
  int64_t dry_penalty_last_n;               /* tokens that are looked at for repetitions; -1: all */
  const char* const* dry_sequence_breakers; /* texts that end a repetition; NULL: the usual ones */
  size_t dry_sequence_breaker_count;
} weft_generate_options;

/*
 * Gets text as it becomes certain, whole characters only, and an empty text before each token and each part of the
 * prompt. Anything but 0 stops: WEFT_INTERRUPTED.
 */
typedef int (*weft_text_function)(void* user, const char* text);
/* Writes on from a prompt: the same text wherever it runs. `function` may be NULL. What it wrote: weft_model_result. */
WEFT_API weft_status weft_model_generate(weft_model* model, const char* prompt, const weft_generate_options* options,
                                         weft_text_function function, void* user);
/* JSON of the last text that was written to its end: text, ids, prompt_ids, end ("end", "stop", "length"), seconds,
 * prompt_seconds. WEFT_NOT_FOUND: none was. */
WEFT_API weft_status weft_model_result(weft_model* model, char* buffer, size_t capacity, size_t* out_needed);

#ifdef __cplusplus
}
#endif

#endif
