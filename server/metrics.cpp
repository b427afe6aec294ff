// SPDX-License-Identifier: Apache-2.0

#include "server/metrics.hpp"

#include "server/request_log.hpp"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

namespace weft::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<std::pair<std::string, std::string>>;

/// Families under construction; each has one type and one help.
class Families {
 public:
  void add(const char* name, const char* help, MetricType type, double value, const Labels& labels = {}) {
    MetricFamily* family = nullptr;
    for (MetricFamily& each : all)
      if (each.name == name) family = &each;
    if (!family) family = &all.emplace_back(MetricFamily{name, help, type, {}});
    ClientMetric& metric = family->metric.emplace_back();
    for (const auto& [key, text] : labels) metric.label.push_back({key, text});
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  }
  void counter(const char* name, const char* help, double value, const Labels& labels = {}) {
    add(name, help, MetricType::Counter, value, labels);
  }
  void gauge(const char* name, const char* help, double value, const Labels& labels = {}) {
    add(name, help, MetricType::Gauge, value, labels);
  }

  void histogram(const char* name, const char* help, const LatencyHistogram& of, const Labels& labels) {
    add(name, help, MetricType::Histogram, 0, labels);
    const auto family = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
    auto& to = family->metric.back().histogram;
    for (std::size_t i = 0; i <= of.bounds().size(); ++i) {
      to.sample_count += of.count(i);
      const bool is_last = i == of.bounds().size();
      to.bucket.push_back({to.sample_count, is_last ? std::numeric_limits<double>::infinity() : of.bounds()[i]});
    }
    to.sample_sum = of.seconds();
  }

  std::vector<MetricFamily> all;
};

double as_double(std::uint64_t value) noexcept { return static_cast<double>(value); }

void add_agent(Families& to, const agent::AgentStatistics& agent, const Labels& mesh) {
  to.gauge("weft_journal_acknowledged_tick", "Tick up to which all is on the device",
           as_double(agent.acknowledged.tick), mesh);
  to.gauge("weft_journal_bytes", "Bytes of the journal since the last checkpoint", as_double(agent.journal_bytes),
           mesh);
  to.gauge("weft_journal_waiting_bytes", "Bytes of records that are not on the device yet",
           as_double(agent.waiting_bytes), mesh);
  to.counter("weft_journal_failures_total", "Writes of the journal that failed", as_double(agent.journal_failures),
             mesh);
  to.counter("weft_checkpoints_total", "Checkpoints written since the mesh was opened",
             as_double(agent.checkpoint.written), mesh);
  to.counter("weft_checkpoint_failures_total", "Checkpoints that could not be written",
             as_double(agent.checkpoint.failed), mesh);
}

void add_device(Families& to, const mesh::DeviceStatistics& device, const Labels& mesh) {
  to.counter("weft_device_steps_total", "Steps that the device ran", as_double(device.device_steps), mesh);
  to.counter("weft_device_host_steps_total", "Steps that the CPU ran although a device was asked for",
             as_double(device.host_steps), mesh);
  to.counter("weft_device_faults_total", "Faults of the device: lost, hung, out of memory", as_double(device.faults),
             mesh);
  to.counter("weft_device_restarts_total", "Times that it was taken again after one", as_double(device.restarts), mesh);
  to.gauge("weft_device_in_use", "0 where the CPU does it all", device.why_host.empty() ? 1 : 0, mesh);
}

void add_supervision(Families& to, const MeshStatistics& statistics, const Labels& mesh) {
  const auto with = [&](const char* key, std::string_view value) {
    Labels labels = mesh;
    labels.emplace_back(key, std::string(value));
    return labels;
  };
  for (std::size_t i = 0; i < statistics.cells.size(); ++i)
    to.gauge("weft_cells", "Cells by status", as_double(statistics.cells[i]),
             with("status", actors::name(static_cast<actors::ActorStatus>(i))));
  for (std::size_t i = 0; i < statistics.supervision.faults.size(); ++i)
    to.counter("weft_faults_total", "Faults of cells by kind", as_double(statistics.supervision.faults[i]),
               with("kind", actors::name(static_cast<actors::FaultKind>(i))));
  for (std::size_t i = 0; i < statistics.supervision.decisions.size(); ++i)
    to.counter("weft_supervision_decisions_total", "What became of cells that failed",
               as_double(statistics.supervision.decisions[i]),
               with("decision", actors::name(static_cast<actors::Policy>(i))));
  to.counter("weft_supervision_escalations_total", "Faults for which no restart was left",
             as_double(statistics.supervision.escalations), mesh);
}

void add_numa_bytes(Families& to, const NumaBytes& read, const Labels& whose) {
  for (const bool is_local : {true, false}) {
    Labels labels = whose;
    labels.emplace_back("access", is_local ? "local" : "remote");
    to.counter("weft_numa_bytes_total", "Bytes of weights that were read, by the node that they lie on",
               as_double(is_local ? read.local : read.remote), labels);
  }
}

void add_mesh(Families& to, ServedMesh& served) {
  const auto statistics = served.statistics();
  const MeshCounters& counters = served.counters();
  const Labels mesh{{"mesh", served.name()}};
  to.counter("weft_ticks_total", "Ticks committed by the mesh", as_double(statistics->tick), mesh);
  to.histogram("weft_tick_seconds", "Time of a tick: the mean of those that one call ran", counters.tick_seconds, mesh);
  to.gauge("weft_mesh_halted", "1 where a fault has halted the mesh", statistics->halted ? 1 : 0, mesh);
  to.counter("weft_samples_total", "Samples with labels that were scored", as_double(statistics->samples), mesh);
  to.gauge("weft_sessions", "Sessions of the mesh", as_double(statistics->sessions.size()), mesh);
  to.gauge("weft_weight_version", "Version of the weights", as_double(statistics->weight_version), mesh);
  to.gauge("weft_weight_bytes", "Bytes of weights", as_double(statistics->weight_bytes), mesh);
  if (statistics->accuracy)
    to.gauge("weft_prequential_accuracy", "Share of hits in the last 1000 samples", *statistics->accuracy, mesh);
  if (statistics->mean_loss)
    to.gauge("weft_mean_loss", "Mean loss of the last 1000 samples", *statistics->mean_loss, mesh);
  to.counter("weft_drift_events_total", "Drifts seen by hits and misses", as_double(statistics->drifts), mesh);
  add_supervision(to, *statistics, mesh);
  if (statistics->agent) add_agent(to, *statistics->agent, mesh);
  if (statistics->checkpoint_time)
    to.gauge("weft_checkpoint_age_seconds", "Time since the last checkpoint was on the device",
             std::chrono::duration<double>(std::chrono::system_clock::now() - *statistics->checkpoint_time).count(),
             mesh);
  if (statistics->device) add_device(to, *statistics->device, mesh);
  to.gauge("weft_queue_depth", "Requests that wait for the mesh", as_double(served.waiting()), mesh);
  to.counter("weft_queue_requests_total", "Requests that were queued", as_double(counters.queued), mesh);
  to.counter("weft_queue_rejected_total", "Requests refused because the queue was full", as_double(counters.rejected),
             mesh);
  to.counter("weft_queue_timeouts_total", "Requests that waited too long", as_double(counters.timed_out), mesh);
  Labels queued = mesh;
  queued.emplace_back("stage", "queued");
  to.counter("weft_requests_cancelled_total", "Requests whose client went before they were executed",
             as_double(counters.cancelled_queued), queued);
  to.counter("weft_forward_rows_total", "Rows computed by forward", as_double(counters.forward_rows), mesh);
  to.counter("weft_forward_batches_total", "Batches in which they were computed", as_double(counters.forward_batches),
             mesh);
  if (served.node()) add_numa_bytes(to, counters.weights_read, mesh);
  to.gauge("weft_sse_clients", "Clients that read events", as_double(served.events().readers()), mesh);
  to.counter("weft_sse_dropped_total", "Events not sent to clients that did not keep up",
             as_double(served.events().dropped()), mesh);
}

void add_model(Families& to, const ServedModel& served) {
  const ModelCounters& counters = served.counters();
  Labels model{{"mesh", served.name()}};
  if (served.node()) model.emplace_back("node", std::to_string(served.node()->index));
  const auto cancelled = [&](const char* stage, std::uint64_t count) {
    Labels labels = model;
    labels.emplace_back("stage", stage);
    to.counter("weft_requests_cancelled_total", "Requests whose client went before they were executed",
               as_double(count), labels);
  };
  to.gauge("weft_queue_depth", "Requests that wait for the mesh", as_double(served.waiting()), model);
  to.counter("weft_queue_requests_total", "Requests that were queued", as_double(counters.queued), model);
  to.counter("weft_queue_rejected_total", "Requests refused because the queue was full", as_double(counters.rejected),
             model);
  to.counter("weft_queue_timeouts_total", "Requests that waited too long", as_double(counters.timed_out), model);
  if (served.node()) add_numa_bytes(to, counters.weights_read, model);
  cancelled("queued", counters.cancelled_queued);
  cancelled("prompt", counters.cancelled_prompt);
  cancelled("decode", counters.cancelled_decode);
  to.gauge("weft_slots", "Texts that a language model can write at once", as_double(served.description().slots), model);
  to.gauge("weft_slots_busy", "Texts that it writes", as_double(served.statistics()->busy), model);
  to.gauge("weft_weight_bytes", "Bytes of weights", as_double(served.description().bytes), model);
  to.counter("weft_prompt_tokens_total", "Tokens of prompts that were computed", as_double(counters.prompt_tokens),
             model);
  to.counter("weft_prompt_tokens_cached_total", "Tokens of prompts that were taken before",
             as_double(counters.cached_tokens), model);
  to.counter("weft_generated_tokens_total", "Tokens that were written", as_double(counters.generated_tokens), model);
  to.counter("weft_draft_tokens_total", "Tokens that were guessed", as_double(counters.guessed_tokens), model);
  to.counter("weft_draft_tokens_accepted_total", "Guessed tokens that were written", as_double(counters.guessed_right),
             model);
  to.counter("weft_preemptions_total", "Texts that gave their slots or memory to others",
             as_double(counters.suspended + counters.parked), model);
  const models::TextEngine::CacheUse cache = served.statistics()->cache;
  to.gauge("weft_prefix_cache_bytes", "Bytes of beginnings of texts that are kept", as_double(cache.bytes), model);
  to.counter("weft_prefix_cache_evicted_total", "Blocks of 64 tokens that made room for others",
             as_double(cache.evicted), model);
  to.histogram("weft_time_to_first_token_seconds", "From a request to its first token", counters.first_token, model);
  to.histogram("weft_inter_token_seconds", "Between two tokens of a text", counters.between_tokens, model);
}

std::optional<double> resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (!file) return std::nullopt;
  unsigned long long total = 0, resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &total, &resident);
  std::fclose(file);
  if (read != 2) return std::nullopt;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void add_process(Families& to) {
  if (const auto bytes = resident_bytes())
    to.gauge("process_resident_memory_bytes", "Resident memory of the process", *bytes);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    to.counter("process_cpu_seconds_total", "Time of processors", seconds(usage.ru_utime) + seconds(usage.ru_stime));
  }
  if (DIR* const open = opendir("/proc/self/fd")) {
    std::uint64_t count = 0;
    while (readdir(open)) ++count;
    closedir(open);
    to.gauge("process_open_fds", "Open file descriptors", as_double(count > 3 ? count - 3 : 0));
  }
}

}  // namespace

struct Metrics::Parts {
  std::string version;
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("weft_http_requests_total")
                                                          .Help("Requests by route and status")
                                                          .Register(registry);
  prometheus::Family<prometheus::Histogram>& seconds =
      prometheus::BuildHistogram().Name("weft_http_request_seconds").Help("From head to answer").Register(registry);
};

Metrics::Metrics(std::string version) : parts_(std::make_unique<Parts>()) { parts_->version = std::move(version); }
Metrics::~Metrics() = default;

void Metrics::count(const std::string& route, int status, std::chrono::nanoseconds took) {
  static const prometheus::Histogram::BucketBoundaries kSeconds{
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30};
  const std::string name = route.empty() ? "none" : route;
  parts_->requests.Add({{"route", name}, {"status", std::to_string(status)}}).Increment();
  parts_->seconds.Add({{"route", name}}, kSeconds).Observe(std::chrono::duration<double>(took).count());
}

std::string Metrics::text(const std::vector<std::shared_ptr<ServedMesh>>& meshes,
                          const std::vector<std::shared_ptr<ServedModel>>& models, const HttpStatistics& http) const {
  Families to;
  for (const auto& each : meshes) add_mesh(to, *each);
  for (const auto& each : models) add_model(to, *each);
  // All models write to one.
  if (const RequestLog* const log = models.empty() ? nullptr : models.front()->log()) {
    to.counter("weft_request_log_lines_total", "Texts that the request log has", as_double(log->lines()), {});
    to.counter("weft_request_log_failures_total", "Texts that it could not take", as_double(log->failures()), {});
  }
  to.gauge("weft_http_connections", "Open connections", as_double(http.connections));
  to.counter("weft_http_connections_total", "Connections accepted", as_double(http.accepted));
  to.counter("weft_http_connections_refused_total", "Connections closed at once: too many", as_double(http.refused));
  to.counter("weft_http_cancelled_total", "Requests whose client went before the answer", as_double(http.cancelled));
  to.counter("weft_http_timeouts_total", "Connections ended by a limit of time", as_double(http.timed_out));
  to.gauge("weft_http_urgent_threads", "Threads for connections with real-time priority; 0: not allowed, or not wanted",
           as_double(http.urgent_threads));
  to.gauge("weft_build_info", "Always 1", 1, {{"version", parts_->version}});
  add_process(to);
  for (MetricFamily& each : parts_->registry.Collect()) to.all.push_back(std::move(each));
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, to.all);
  return out.str();
}

}  // namespace weft::server
