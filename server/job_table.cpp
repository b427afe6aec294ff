// SPDX-License-Identifier: Apache-2.0

#include "server/job_table.hpp"

#include <array>
#include <new>
#include <string_view>
#include <utility>

namespace weft::server {
namespace {

constexpr std::array<std::string_view, 5> kStates{"queued", "running", "done", "failed", "cancelled"};

Failure no_job(const std::string& id) {
  return fail(Errc::not_found,
              "job '" + id.substr(0, 64) + "': there is none of this id; one that has ended is kept for an hour");
}

}  // namespace

void JobTable::Progress::tell(std::string text) {
  const std::lock_guard hold(mutex_);
  text_ = std::move(text);
}

std::string JobTable::Progress::text() const {
  const std::lock_guard hold(mutex_);
  return text_;
}

void JobTable::stop() {
  {
    const std::lock_guard hold(mutex_);
    stops_ = true;
    for (auto& [_, job] : jobs_) job.progress->cancel();
  }
  worker_.stop();
}

Result<std::string> JobTable::submit(std::string op, std::string mesh, Work work) {
  std::string id;
  {
    const std::lock_guard hold(mutex_);
    forget_old();
    id = std::to_string(++last_);
    Job& job = jobs_[id];
    job.op = std::move(op), job.mesh = std::move(mesh);
    if (stops_) job.progress->cancel();
  }
  if (worker_.submit([this, id, work = std::move(work)] { run(id, work); })) return id;
  const std::lock_guard hold(mutex_);
  jobs_.erase(id);
  return fail(Errc::full, "jobs: " + std::to_string(kWaiting) + " wait already; try again later");
}

void JobTable::run(const std::string& id, const Work& work) {
  std::shared_ptr<Progress> progress;
  {
    const std::lock_guard hold(mutex_);
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;
    progress = found->second.progress;
    if (!progress->is_cancelled()) found->second.state = State::running;
  }
  const auto done = [&]() -> Result<Json> {
    if (progress->is_cancelled()) return fail(Errc::interrupted, "cancelled before it began");
    try {
      return work(*progress);
    } catch (const std::bad_alloc&) {
      return fail(Errc::too_large, "not enough memory");
    } catch (const std::exception& unforeseen) {
      return fail(Errc::internal, unforeseen.what());
    }
  };
  auto result = done();
  const std::lock_guard hold(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  job.ended = Clock::now();
  if (result) {
    job.state = State::done;
    job.result = *std::move(result);
  } else {
    job.state = result.error().code() == Errc::interrupted ? State::cancelled : State::failed;
    job.error = result.error();
  }
}

/// @pre the lock is held
void JobTable::forget_old() {
  const auto now = Clock::now();
  for (auto each = jobs_.begin(); each != jobs_.end();) {
    const bool has_ended = each->second.state > State::running;
    each = has_ended && (now - each->second.ended > kKept || jobs_.size() >= kMostKept) ? jobs_.erase(each)
                                                                                        : std::next(each);
  }
}

Json JobTable::json_of(const std::string& id, const Job& job) {
  Json out{{"id", id},
           {"op", job.op},
           {"mesh", job.mesh},
           {"state", kStates[static_cast<std::size_t>(job.state)]},
           {"progress", job.progress->text()}};
  if (job.state == State::done) out["result"] = job.result;
  if (job.error) out["error"] = Json{{"message", job.error->text()}, {"code", name(job.error->code())}};
  return out;
}

Result<Json> JobTable::describe(const std::string& id) const {
  const std::lock_guard hold(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return no_job(id);
  return json_of(id, found->second);
}

std::vector<Json> JobTable::all() const {
  std::vector<Json> out;
  const std::lock_guard hold(mutex_);
  for (const auto& [id, job] : jobs_) out.push_back(json_of(id, job));
  return out;
}

Status JobTable::cancel(const std::string& id) {
  const std::lock_guard hold(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return no_job(id);
  found->second.progress->cancel();
  if (found->second.state > State::running) jobs_.erase(found);
  return {};
}

}  // namespace weft::server
