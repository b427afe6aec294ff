// SPDX-License-Identifier: Apache-2.0

#include "server/served_model.hpp"

#include "models/generation_config.hpp"
#include "server/access.hpp"
#include "server/request_log.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/log.hpp"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace weft::server {
namespace {

constexpr std::chrono::milliseconds kFullPause{5};  // while all clients read too slowly
constexpr std::chrono::milliseconds kLookAtQueue{50};
constexpr std::chrono::seconds kSilence{15};

/// The answer where the queue is full: when a place in it should be free, by what requests took lately.
HttpResponse queue_is_full(const std::string& model, std::size_t waiting, const ModelStatistics& now) {
  HttpResponse response =
      error_response(429, "rate_limit_error",
                     "model '" + model + "': " + std::to_string(waiting) + " requests wait already; try again later");
  const double places = static_cast<double>(std::max<std::size_t>(now.slots.size(), 1));
  const double seconds = std::clamp(std::ceil(now.request_seconds * static_cast<double>(waiting) / places), 1.0, 30.0);
  const auto whole = static_cast<int>(seconds);
  for (HttpHeader& each : response.headers) {
    if (each.name == "Retry-After") each.value = std::to_string(whole);
    if (each.name == "retry-after-ms") each.value = std::to_string(whole * 1000);
  }
  return response;
}

HttpResponse stopping() { return error_response(503, "unavailable_error", "The server is stopping"); }

ModelDescription describe(std::string name, std::string file, const models::LanguageModel& model) {
  ModelDescription out;
  out.name = std::move(name);
  out.file = std::move(file);
  out.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const mesh::Graph& graph = model.mesh->graph();
  out.vocabulary = graph.nodes()[graph.outputs().front()].width;
  out.trained_context = model.context;
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(*model.mesh);
  out.bytes = weights.allocated_bytes();
  for (const auto& each : weights.parameters())
    out.parameters += std::uint64_t{each.spec->out} * std::max<std::size_t>(each.spec->in, 1);
  out.digest = models::digest_of(model);
  return out;
}

}  // namespace

Result<std::shared_ptr<ServedModel>> ServedModel::make(std::string name, std::string file, Loaded loaded,
                                                       Options options) {
  if (!options.preset.empty())
    if (auto draw = models::sampler_of_preset(options.preset, loaded.model.generation); !draw)
      return fail(std::move(draw).error().within("preset"));
  ModelDescription description = describe(std::move(name), std::move(file), loaded.model);
  std::shared_ptr<ServedModel> made(new ServedModel(std::move(description), std::move(loaded), std::move(options)));
  models::TextEngine::Options with = made->options_.engine;
  with.drafts.model = made->loaded_.draft.get();
  WEFT_TRY(auto engine, models::TextEngine::make(made->model(), with));
  made->description_.context = engine.context();
  made->description_.slots = engine.slots();
  made->description_.width = engine.features();
  made->engine_ = std::make_unique<models::TextEngine>(std::move(engine));
  made->places_.resize(made->engine_->slots());
  made->publish();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's
  made->thread_ = std::thread([served = made.get()] { served->work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

ServedModel::ServedModel(ModelDescription description, Loaded loaded, Options options)
    : options_(std::move(options)), description_(std::move(description)), loaded_(std::move(loaded)) {}

ServedModel::~ServedModel() { stop(); }

std::shared_ptr<const ModelStatistics> ServedModel::statistics() const {
  const std::lock_guard hold(mutex_);
  return statistics_;
}

std::size_t ServedModel::waiting() const {
  const std::lock_guard hold(mutex_);
  return queue_.size();
}

void ServedModel::submit(TextJob job) {
  std::optional<HttpResponse> refusal;
  if (!job.texts.empty()) job.priority = job.texts.front().priority, job.deadline = job.texts.front().deadline;
  if (options_.log) job.receiver = options_.log->record(std::move(job.receiver), job.texts, description_);
  if (options_.isolates_keys)
    for (models::TextRequest& each : job.texts)
      each.tenant = std::string(shown_key(job.exchange->request)) + '\n' + each.tenant;
  {
    const std::lock_guard hold(mutex_);
    if (stops_)
      refusal = stopping();
    else if (queue_.size() >= options_.queue + (is_paused_ ? 0 : places_.size() - statistics_->busy))
      refusal = queue_is_full(name(), queue_.size(), *statistics_);
    else
      queue_.emplace_back().job = std::move(job);
    if (!refusal) queue_.back().queued = Clock::now();
  }
  if (!refusal) {
    counters_.queued.fetch_add(1, std::memory_order_relaxed);
    changed_.notify_one();
    return;
  }
  counters_.rejected.fetch_add(1, std::memory_order_relaxed);
  job.receiver->fail(*std::move(refusal));
}

std::size_t ServedModel::abort(const std::string& label) {
  const std::lock_guard hold(mutex_);
  aborted_.push_back(label);
  changed_.notify_one();
  return queue_.size() + statistics_->busy;
}

void ServedModel::pause() {
  const std::lock_guard hold(mutex_);
  is_paused_ = true;
}

void ServedModel::resume() {
  const std::lock_guard hold(mutex_);
  is_paused_ = false;
  changed_.notify_one();
}

bool ServedModel::is_paused() const {
  const std::lock_guard hold(mutex_);
  return is_paused_;
}

void ServedModel::forget() {
  const std::lock_guard hold(mutex_);
  forgets_ = true;
  changed_.notify_one();
}

void ServedModel::stop() {
  {
    const std::lock_guard hold(mutex_);
    stops_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// --- the model's thread

void ServedModel::work() {
  const OnNode stays(options_.node);
  while (wait_for_work()) {
    look_at_queue();
    const bool writes = !is_paused();
    if (writes) admit();
    look_after();
    if (writes) {
      is_stuck_ = !engine_->step([this](std::size_t slot, models::TextChunk part) { give(slot, std::move(part)); });
      if (!is_stuck_) count_bytes();
    }
    remove_ended();
    publish();
  }
  for (Running& each : running_) each.job.receiver->fail(stopping());
  running_.clear();
  std::list<Running> waiting;
  {
    const std::lock_guard hold(mutex_);
    waiting.swap(queue_);
  }
  for (Running& each : waiting) each.job.receiver->fail(stopping());
}

/// False: it is the end.
bool ServedModel::wait_for_work() {
  std::unique_lock hold(mutex_);
  const auto is_news = [this] { return stops_ || !aborted_.empty() || forgets_; };
  const auto is_wanted = [&] { return is_news() || (!queue_.empty() && !is_paused_); };
  const bool has_room = engine_->free_slots() > 0;
  // Texts that wait for memory, where a step found nothing to do, wait for readers that are too slow.
  const auto can_go_on = [this](const Place& each) {
    const auto slot = static_cast<std::size_t>(&each - places_.data());
    return each.request && !each.request->is_full && !(is_stuck_ && engine_->slot(slot).is_parked);
  };
  const bool can_write = !is_paused_ && std::any_of(places_.begin(), places_.end(), can_go_on);
  // Requests in the queue wait while readers that are too slow have all slots.
  if (!can_write && !running_.empty() && !has_room)
    changed_.wait_for(hold, kFullPause, is_news);
  else if (!can_write && !running_.empty())
    changed_.wait_for(hold, kFullPause, is_wanted);
  else if (!can_write && !queue_.empty())
    changed_.wait_for(hold, kLookAtQueue, is_wanted);
  else if (!can_write)
    changed_.wait(hold, [&] { return is_news() || !queue_.empty(); });
  return !stops_;
}

bool ServedModel::is_gone(Running& request) {
  if (request.job.exchange->is_cancelled()) {
    counters_.cancelled_queued.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (is_late(request)) return true;
  if (Clock::now() - request.queued < options_.longest_wait) return false;
  counters_.timed_out.fetch_add(1, std::memory_order_relaxed);
  request.job.receiver->fail(
      error_response(503, "unavailable_error", "model '" + name() + "': this request waited too long for others"));
  return true;
}

/// Answers a request whose deadline is past.
bool ServedModel::is_late(Running& request) {
  if (!request.job.deadline || Clock::now() < *request.job.deadline) return false;
  counters_.timed_out.fetch_add(1, std::memory_order_relaxed);
  const char* const far = request.has_begun ? "the text was not whole" : "the text was not begun";
  request.job.receiver->fail(error_response(
      504, "timeout_error", "model '" + name() + "': the request's timeout is over, " + far, "deadline_exceeded"));
  return true;
}

/// Drops requests that wait and that nobody waits for any more, and does what others asked of the thread.
void ServedModel::look_at_queue() {
  std::list<Running> gone;
  std::vector<std::string> aborted;
  bool forgets = false;
  {
    const std::lock_guard hold(mutex_);
    aborted.swap(aborted_);
    forgets = std::exchange(forgets_, false);
    for (auto each = queue_.begin(); each != queue_.end();) {
      const auto now = each++;
      if (is_gone(*now)) gone.splice(gone.end(), queue_, now);
    }
    if (!aborted.empty()) gone.splice(gone.end(), queue_);  // those that stay come back below
  }
  if (forgets) engine_->forget();
  if (aborted.empty()) return;
  const auto is_aborted = [&](const Running& each) {
    const std::string& label = each.job.label.empty() ? each.job.exchange->request.id : each.job.label;
    return std::any_of(aborted.begin(), aborted.end(),
                       [&](const std::string& given) { return given.empty() || given == label; });
  };
  const auto end = [&](Running& each) {
    HttpResponse response = error_response(503, "unavailable_error", "the request was ended by abort_request");
    response.headers.push_back({"x-should-retry", "false"});
    each.job.receiver->fail(std::move(response));
    each.is_ended = true;
  };
  for (Running& each : running_)
    if (!each.is_ended && is_aborted(each)) end(each);
  std::list<Running> kept;
  for (auto each = gone.begin(); each != gone.end();) {
    const auto now = each++;
    if (is_aborted(*now))
      end(*now);
    else
      kept.splice(kept.end(), gone, now);
  }
  const std::lock_guard hold(mutex_);
  queue_.splice(queue_.begin(), kept);
}

/// The first of the lowest priority number and the nearest deadline, or the first. @pre mutex_ is held
std::list<ServedModel::Running>::iterator ServedModel::first_of_queue() {
  if (!options_.by_priority) return queue_.begin();
  return std::min_element(queue_.begin(), queue_.end(),
                          [](const Running& a, const Running& b) { return a.rank() < b.rank(); });
}

/// The request whose next text gets the next free slot; null: there is none. Those that were begun come before others
/// of their priority.
ServedModel::Running* ServedModel::next_to_begin() {
  Running* best = nullptr;
  const auto precedes = [&](const Running& each) {
    return !best || (options_.by_priority && each.rank() < best->rank());
  };
  for (Running& each : running_)
    if (each.waits() && precedes(each)) best = &each;
  const std::lock_guard hold(mutex_);
  const auto first = first_of_queue();
  if (first == queue_.end() || is_paused_ || !precedes(*first)) return best;
  running_.splice(running_.end(), queue_, first);
  return &running_.back();
}

/// Takes the slot of the text of the highest priority number for a request of a lower one, of several that of the
/// request that was begun last. False: no slot is free then either.
bool ServedModel::make_room() {
  if (!options_.by_priority) return false;
  std::optional<int> wanted;
  const auto want = [&](const Running& each) { wanted = std::min(wanted.value_or(each.priority()), each.priority()); };
  for (const Running& each : running_)
    if (each.waits()) want(each);
  {
    const std::lock_guard hold(mutex_);
    if (!queue_.empty() && !is_paused_) want(*first_of_queue());
  }
  const auto rank = [&](const Place& place) { return std::pair(place.request->priority(), place.request->number); };
  Place* last = nullptr;
  for (Place& each : places_)
    if (each.request && wanted && each.request->priority() > *wanted && (!last || rank(each) > rank(*last)))
      last = &each;
  if (!last) return false;
  last->request->suspended.emplace_back(last->text, engine_->suspend(static_cast<std::size_t>(last - places_.data())));
  *last = {};
  counters_.suspended.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ServedModel::begin_text(Running& request) {
  if (!request.suspended.empty()) {
    auto [text, suspended] = std::move(request.suspended.back());
    request.suspended.pop_back();
    const std::size_t slot = engine_->resume(std::move(suspended));
    engine_->pause(slot, request.is_full);
    places_[slot] = {&request, text, Clock::now()};
    return;
  }
  const std::size_t text = request.next_text++;
  const auto slot = engine_->begin(std::move(request.job.texts[text]));
  if (!slot) {
    request.job.receiver->fail(error_response(slot.error()));
    request.is_ended = true;
    return;
  }
  places_[*slot] = {&request, text, {}};
  ++request.open;
  if (std::exchange(request.has_begun, true)) return;
  request.number = next_number_++;
  request.heard = request.begun = Clock::now();
  request.job.receiver->begin();
}

void ServedModel::admit() {
  while (engine_->free_slots() > 0 || make_room()) {
    Running* const next = next_to_begin();
    if (!next) return;
    begin_text(*next);
  }
}

void ServedModel::count_cancelled(const Running& request) {
  bool is_reading = false;
  for (std::size_t slot = 0; slot < places_.size(); ++slot)
    is_reading |= places_[slot].request == &request && engine_->slot(slot).is_reading;
  auto& counter = is_reading ? counters_.cancelled_prompt : counters_.cancelled_decode;
  counter.fetch_add(1, std::memory_order_relaxed);
}

/// Ends what nobody reads any more, and lets those wait who read too slowly.
void ServedModel::look_after() {
  const auto now = Clock::now();
  for (Running& each : running_) {
    if (each.is_ended) continue;
    if (each.job.exchange->is_cancelled()) {
      count_cancelled(each);
      each.is_ended = true;
      continue;
    }
    if (!each.is_written && is_late(each)) {
      each.is_ended = true;
      continue;
    }
    const bool is_full = each.job.receiver->is_full();
    each.is_ended = each.is_written && !is_full;
    if (is_full != std::exchange(each.is_full, is_full))
      for (std::size_t slot = 0; slot < places_.size(); ++slot)
        if (places_[slot].request == &each) engine_->pause(slot, is_full);
    if (now - each.heard < kSilence) continue;
    each.job.receiver->wait();
    each.heard = now;
  }
  remove_ended();
}

void ServedModel::give(std::size_t slot, models::TextChunk part) {
  Place& place = places_[slot];
  Running& request = *place.request;
  const auto now = Clock::now();
  const auto seconds = [&](Clock::time_point since) { return std::chrono::duration<double>(now - since).count(); };
  if (!part.ids.empty()) {
    if (place.last_token == Clock::time_point{})
      counters_.first_token.add(seconds(request.queued));
    else
      counters_.between_tokens.add(seconds(place.last_token));
    place.last_token = now;
    counters_.generated_tokens.fetch_add(part.ids.size(), std::memory_order_relaxed);
  }
  const auto end = part.end;
  request.heard = now;
  if (end != models::TextChunk::End::none) {
    counters_.prompt_tokens.fetch_add(part.times.prompt - part.times.cached, std::memory_order_relaxed);
    counters_.cached_tokens.fetch_add(part.times.cached, std::memory_order_relaxed);
    counters_.guessed_tokens.fetch_add(part.times.guessed, std::memory_order_relaxed);
    counters_.guessed_right.fetch_add(part.times.guessed_right, std::memory_order_relaxed);
    --request.open;
  }
  const std::size_t text = place.text;
  if (end != models::TextChunk::End::none) place = {};
  if (request.is_ended) return;
  if (end == models::TextChunk::End::failed) {
    log_error("model '" + name() + "': " + part.outcome.error().text());
    request.job.receiver->fail(error_response(500, "server_error", part.outcome.error().text()));
    request.is_ended = true;
    return;
  }
  request.job.receiver->take(text, std::move(part));
  if (request.open > 0 || request.next_text < request.job.texts.size()) return;
  request.job.receiver->end();
  request.is_written = true;
  const double took = seconds(request.begun);
  request_seconds_ = request_seconds_ == 0 ? took : 0.8 * request_seconds_ + 0.2 * took;
}

void ServedModel::remove_ended() {
  for (Running& each : running_) each.is_ended = each.is_ended || (each.is_written && !each.job.receiver->is_full());
  for (std::size_t slot = 0; slot < places_.size(); ++slot)
    if (places_[slot].request && places_[slot].request->is_ended) {
      engine_->drop(slot);
      places_[slot] = {};
    }
  running_.remove_if([](const Running& each) { return each.is_ended; });
}

/// A step reads all weights once, for all texts that it goes on with.
void ServedModel::count_bytes() {
  if (!options_.node) return;
  counters_.weights_read.add(description_.bytes, local_share(model().mesh->plan(), *options_.node));
}

void ServedModel::publish() {
  auto made = std::make_shared<ModelStatistics>();
  for (std::size_t slot = 0; slot < places_.size(); ++slot) {
    made->slots.push_back({engine_->slot(slot), places_[slot].request ? places_[slot].request->number : 0});
    made->busy += places_[slot].request != nullptr;
  }
  made->request_seconds = request_seconds_;
  made->cache = engine_->cache_use();
  counters_.parked.store(engine_->parked(), std::memory_order_relaxed);
  const std::lock_guard hold(mutex_);
  statistics_ = std::move(made);
}

}  // namespace weft::server
