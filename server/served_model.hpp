// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/language_model.hpp"
#include "models/model_digest.hpp"
#include "models/text_engine.hpp"
#include "server/http_exchange.hpp"
#include "server/latency_histogram.hpp"
#include "server/numa.hpp"

#include "core/result.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weft::server {

/// Facts of a language model that never change.
struct ModelDescription {
  std::string name, file;  ///< file: its name without folders
  std::int64_t created = 0;
  std::size_t vocabulary = 0, context = 0, trained_context = 0, width = 0, slots = 0;
  std::uint64_t parameters = 0, bytes = 0;
  models::ModelDigest digest{};
};

/// State of a model's slots as its thread published it last.
struct ModelStatistics {
  struct Slot {
    models::TextEngine::Slot state;
    std::uint64_t task = 0;  ///< number of the request; 0: none
  };
  std::vector<Slot> slots;
  std::size_t busy = 0;
  double request_seconds = 0;  ///< that requests took lately, from their first slot on
  models::TextEngine::CacheUse cache{};
};

/// Counts of a model's requests since it is served. @thread any
struct ModelCounters {
  std::atomic<std::uint64_t> queued{0}, rejected{0}, timed_out{0};
  std::atomic<std::uint64_t> cancelled_queued{0}, cancelled_prompt{0}, cancelled_decode{0};
  NumaBytes weights_read;  ///< by steps, of one that is on a node; by the weights' size
  std::atomic<std::uint64_t> prompt_tokens{0}, cached_tokens{0}, generated_tokens{0};
  std::atomic<std::uint64_t> guessed_tokens{0}, guessed_right{0};
  std::atomic<std::uint64_t> suspended{0};  ///< texts that gave their slots to more urgent ones
  std::atomic<std::uint64_t> parked{0};     ///< texts that gave their keys and values to others
  LatencyHistogram first_token, between_tokens;
};

/// Whoever hears what becomes of a request's texts. @thread the model's, one call at a time
class TextReceiver {
 public:
  virtual ~TextReceiver() = default;
  /// The first of its texts has a slot.
  virtual void begin() = 0;
  virtual void take(std::size_t text, models::TextChunk part) = 0;
  /// True while its client reads too slowly: its texts wait. Asked between steps, so it may send what it kept.
  virtual bool is_full() = 0;
  /// Called now and then while nothing comes, so that a client knows that it still will.
  virtual void wait() = 0;
  /// All texts ended. It stays until it is full no more.
  virtual void end() = 0;
  /// The request ends here, begun or not.
  virtual void fail(HttpResponse why) = 0;
};

/// Texts that a request asks for.
struct TextJob {
  ExchangePointer exchange;
  std::vector<models::TextRequest> texts;
  std::shared_ptr<TextReceiver> receiver;
  std::string label;  ///< under which it can be ended; empty: the exchange's id
  int priority = 0;   ///< lower ones come first; `submit` sets that of the texts, and their deadline
  std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< when the request ends, whatever it has
};

class RequestLog;

/// A language model with a thread and a bounded queue. The texts of all requests that have a slot are written together;
/// requests get slots in the order in which they came, or by priority and of one priority by deadline: then a text
/// gives its slot to one of a lower number, and goes on when one is free again. A request whose deadline is past is
/// answered by 504 instead, begun or not.
/// @exact a text is a function of model and request, whatever else is served
/// @thread any
class ServedModel {
 public:
  struct Options {
    models::TextEngine::Options engine;
    std::size_t queue = 64;                          ///< requests that may wait
    std::chrono::milliseconds longest_wait{30'000};  ///< of a request, in the queue
    std::optional<NumaNode> node{};                  ///< that its thread stays on
    std::string preset{};                            ///< of requests that name none; empty: values of the route
    bool by_priority = false;
    bool isolates_keys = false;         ///< texts never go on from those that another key began
    std::shared_ptr<RequestLog> log{};  ///< of texts that were written; null: none
  };
  /// The model, and one that guesses what it will write, where there is one.
  struct Loaded {
    models::LanguageModel model;
    std::unique_ptr<const models::LanguageModel> draft{};
  };

  /// @error as TextEngine::make, models::sampler_of_preset
  static Result<std::shared_ptr<ServedModel>> make(std::string name, std::string file, Loaded loaded, Options options);
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  const std::string& name() const noexcept { return description_.name; }
  const ModelDescription& description() const noexcept { return description_; }
  const models::LanguageModel& model() const noexcept { return loaded_.model; }
  const text::Tokenizer& tokenizer() const noexcept { return *model().tokenizer; }
  const std::string& preset() const noexcept { return options_.preset; }
  bool takes_priorities() const noexcept { return options_.by_priority; }
  const ModelCounters& counters() const noexcept { return counters_; }
  const std::optional<NumaNode>& node() const noexcept { return options_.node; }
  const RequestLog* log() const noexcept { return options_.log.get(); }
  std::shared_ptr<const ModelStatistics> statistics() const;
  std::size_t waiting() const;

  /// Queues a request; refused at once (429, 503) where there is no room. @pre each text passed `check`
  void submit(TextJob job);
  /// Success where a text can be written. @error as TextEngine::check
  Status check(const models::TextRequest& request) const { return engine_->check(request); }
  /// Ends requests of a label, or all where it is empty; returns how many that were at most.
  std::size_t abort(const std::string& label);
  /// All texts wait until `resume`.
  void pause();
  void resume();
  bool is_paused() const;
  /// Slots forget what they took.
  void forget();
  /// Ends all requests with 503, and the thread.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    TextJob job;
    std::uint64_t number = 0;
    Clock::time_point queued{}, begun{};
    std::size_t next_text = 0, open = 0;  // the first text that had no slot yet; those that are being written
    /// Texts that gave their slots away, by their numbers in the job.
    std::vector<std::pair<std::size_t, models::TextEngine::Suspended>> suspended{};
    bool has_begun = false, is_full = false, is_written = false, is_ended = false;  // written: all texts
    Clock::time_point heard{};

    int priority() const { return job.priority; }
    std::pair<int, Clock::time_point> rank() const {
      return {job.priority, job.deadline.value_or(Clock::time_point::max())};
    }
    bool waits() const { return !is_ended && (next_text < job.texts.size() || !suspended.empty()); }
  };
  /// The text that a slot writes.
  struct Place {
    Running* request = nullptr;
    std::size_t text = 0;
    Clock::time_point last_token{};
  };

  ServedModel(ModelDescription description, Loaded loaded, Options options);
  void work();
  bool wait_for_work();
  void look_at_queue();
  bool is_gone(Running& request);
  bool is_late(Running& request);
  void admit();
  bool make_room();
  Running* next_to_begin();
  std::list<Running>::iterator first_of_queue();
  void begin_text(Running& request);
  void look_after();
  void count_cancelled(const Running& request);
  void give(std::size_t slot, models::TextChunk part);
  void remove_ended();
  void count_bytes();
  void publish();

  const Options options_;
  ModelDescription description_;  // stays as it is once the thread runs
  const Loaded loaded_;
  std::unique_ptr<models::TextEngine> engine_;  // of the thread, but for `check`
  ModelCounters counters_;
  mutable std::mutex mutex_;  // of the six below
  std::condition_variable changed_;
  std::list<Running> queue_;
  std::shared_ptr<const ModelStatistics> statistics_;
  std::vector<std::string> aborted_;
  bool stops_ = false, is_paused_ = false, forgets_ = false;
  // Of the thread:
  std::list<Running> running_;
  std::vector<Place> places_;
  std::uint64_t next_number_ = 1;
  double request_seconds_ = 0;
  bool is_stuck_ = false;  // the last step found nothing to do
  std::thread thread_;
};

}  // namespace weft::server
