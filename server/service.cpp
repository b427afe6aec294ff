// SPDX-License-Identifier: Apache-2.0

#include "server/service.hpp"

#include "server/bridge_api.hpp"
#include "server/idempotency.hpp"
#include "server/language_api.hpp"
#include "server/metrics.hpp"
#include "server/native_api.hpp"
#include "server/router.hpp"
#include "server/statistics_json.hpp"
#include "server/worker.hpp"

#include "core/log.hpp"

#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

namespace weft::server {
namespace {

constexpr std::chrono::milliseconds kTurn{50};        // between two looks at those who read events
constexpr std::chrono::milliseconds kLastWords{500};  // for answers to requests that were ended

enum class Phase : int { loading, ready, stopping };

HttpResponse text_response(std::string text, const char* type) {
  HttpResponse response;
  response.content_type = type;
  response.body = std::move(text);
  return response;
}

/// True of paths at which the page and its files are.
bool is_asset_path(std::string_view path) { return path == "/" || path.starts_with("/assets/"); }

/// True of media types that a web page may send anywhere without asking first.
bool is_simple_type(std::string_view type) {
  const std::string kind = lowered(type.substr(0, type.find(';')));
  return kind.starts_with("text/plain") || kind.starts_with("application/x-www-form-urlencoded") ||
         kind.starts_with("multipart/form-data");
}

}  // namespace

struct Service::Parts {
  Parts(Options of, std::unique_ptr<Access> who)
      : options(std::move(of)),
        access(std::move(who)),
        meshes(options.meshes),
        models(options.models),
        metrics(options.version),
        native{meshes, worker, jobs, idempotency, options.model_directory, options.allows_weights, options.version},
        language{models,
                 meshes,
                 reader,
                 large_reader,
                 options.version,
                 worker,
                 options.model_directory,
                 options.allows_weights} {}

  void turn() {
    std::unique_lock hold(mutex);
    while (!stops) {
      changed.wait_for(hold, kTurn);
      if (stops) return;
      hold.unlock();
      const auto now = EventRing::Clock::now();
      for (const auto& each : meshes.all()) each->events().turn(now, [&] { return statistics_of(*each); });
      hold.lock();
    }
  }

  /// Ends the thread of events.
  void stop_turning() {
    {
      const std::lock_guard hold(mutex);
      stops = true;
    }
    changed.notify_all();
    if (turner.joinable()) turner.join();
  }

  const Options options;
  const std::unique_ptr<Access> access;
  MeshTable meshes;
  ModelTable models;
  IdempotencyStore idempotency;
  Metrics metrics;
  std::unique_ptr<HttpServer> http;
  Worker worker;
  JobTable jobs;
  Worker reader{256}, large_reader;  // of requests for texts
  NativeContext native;
  LanguageContext language;
  std::unique_ptr<BridgeHost> bridge;
  Router router;
  std::atomic<Phase> phase{Phase::loading};
  std::mutex mutex;
  std::condition_variable changed;
  bool stops = false;
  std::thread turner;
};

Service::Service(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

/// Whoever may still answer a request ends before the connections do.
Service::~Service() {
  parts_->phase.store(Phase::stopping);
  parts_->stop_turning();
  parts_->worker.stop();
  parts_->jobs.stop();
  parts_->reader.stop();
  parts_->large_reader.stop();
  parts_->models.stop_all();
  if (parts_->bridge) parts_->bridge->stop();
  for (const auto& each : parts_->meshes.all())
    if (const Status stopped = each->stop(false); !stopped) log_error(stopped.error().text());
  parts_->http.reset();
}

Result<std::unique_ptr<Service>> Service::make(Options options) {
  WEFT_TRY(auto access, Access::make(options.access));
  if (options.numa != NumaMode::off) {
    if (!options.machine) {
      WEFT_TRY(options.machine, topology::Machine::discover());
    }
    WEFT_TRY(options.models.numa, NumaPlacement::make(options.numa, *options.machine));
    options.meshes.numa = options.models.numa;
  }
  std::unique_ptr<Service> made(new Service(std::make_unique<Parts>(std::move(options), std::move(access))));
  Parts& parts = *made->parts_;
  // The routes that are asked for most are looked at first.
  add_tick_routes(parts.router, parts.native);
  made->add_probes();
  add_mesh_routes(parts.router, parts.native);
  add_session_routes(parts.router, parts.native);
  add_state_routes(parts.router, parts.native);
  add_history_routes(parts.router, parts.native);
  add_cell_routes(parts.router, parts.native);
  add_model_routes(parts.router, parts.language);
  add_completion_routes(parts.router, parts.language);
  add_chat_routes(parts.router, parts.language);
  add_embedding_routes(parts.router, parts.language);
  add_llama_routes(parts.router, parts.language);
  add_llama_completion_routes(parts.router, parts.language);
  add_sglang_routes(parts.router, parts.language);
  if (!parts.options.bridge_root.empty()) {
    parts.bridge = std::make_unique<BridgeHost>(parts.options.bridge_root);
    add_bridge_routes(parts.router, *parts.bridge);
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's
  parts.turner = std::thread([&parts] { parts.turn(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

Status Service::listen(HttpServer::Options options) {
  std::error_code none;
  if (options.upload_directory.empty()) options.upload_directory = parts_->options.model_directory;
  if (options.upload_directory.empty()) options.upload_directory = std::filesystem::temp_directory_path(none).string();
  WEFT_TRY(parts_->http, HttpServer::open(std::move(options), *this));
  return {};
}

const std::vector<std::string>& Service::addresses() const noexcept { return parts_->http->addresses(); }
MeshTable& Service::meshes() noexcept { return parts_->meshes; }
ModelTable& Service::models() noexcept { return parts_->models; }
Access& Service::access() noexcept { return *parts_->access; }
void Service::ready() noexcept { parts_->phase.store(Phase::ready); }

Status Service::stop(std::chrono::milliseconds time) {
  parts_->phase.store(Phase::stopping);
  parts_->jobs.stop();
  // Readers of events would never end by themselves.
  for (const auto& each : parts_->meshes.all()) each->events().end();
  if (parts_->http) {
    parts_->http->drain();
    (void)parts_->http->wait_idle(time);
  }
  parts_->models.stop_all();
  if (parts_->http) (void)parts_->http->wait_idle(kLastWords);
  parts_->stop_turning();
  return parts_->meshes.stop_all();
}

void Service::add_probes() {
  Parts& parts = *parts_;
  const auto add = [&](const char* path, std::function<HttpResponse()> answer) {
    parts.router.add({"GET", path, Route::Body::none, true, false,
                      [answer = std::move(answer)](Call call) { call.exchange->respond(answer()); }});
  };
  const auto is_ready = [&parts]() -> HttpResponse {
    const Phase phase = parts.phase.load();
    if (phase == Phase::ready) return text_response(R"({"status":"ok"})", "application/json");
    const char* const why = phase == Phase::loading ? "Loading model" : "The server is stopping";
    HttpResponse response = error_response(503, "unavailable_error", why);
    response.body = Json{{"error", {{"code", 503}, {"message", why}, {"type", "unavailable_error"}}}}.dump();
    return response;
  };
  const auto is_alive = [] { return text_response(R"({"status":"ok"})", "application/json"); };
  for (const char* path : {"/health", "/v1/health", "/readyz", "/v2/health/ready"}) add(path, is_ready);
  for (const char* path : {"/healthz", "/livez", "/v2/health/live"}) add(path, is_alive);
  parts.router.add({"GET", "/metrics", Route::Body::none, false, false, [&parts](Call call) {
                      const HttpStatistics http = parts.http ? parts.http->statistics() : HttpStatistics();
                      call.exchange->respond(
                          text_response(parts.metrics.text(parts.meshes.all(), parts.models.all_replicas(), http),
                                        Metrics::kContentType));
                    }});
}

HttpHandler::Admission Service::admit(const HttpRequest& head) {
  const Parts& parts = *parts_;
  const auto refuse = [](HttpResponse response) { return Admission{std::move(response)}; };
  const bool is_preflight = head.method == "OPTIONS";
  const auto match = parts.router.find(head.method, head.path);
  const bool is_asset = is_asset_path(head.path);
  const bool is_keyless = is_preflight || is_asset || (match.route && match.route->is_keyless);
  if (auto refusal = parts.access->refusal(head, is_keyless)) return refuse(*std::move(refusal));
  if (is_preflight) return refuse(parts.access->preflight(head));
  if (is_asset && parts.options.assets) {
    if (auto asset = parts.options.assets(head)) return refuse(*std::move(asset));
  }
  if (!match.route && match.allowed.empty())
    return refuse(error_response(404, "not_found_error", "nothing is served at this path"));
  if (!match.route) {
    HttpResponse response = error_response(405, "invalid_request_error", "this path is asked by " + match.allowed);
    response.headers.push_back({"Allow", match.allowed});
    return refuse(std::move(response));
  }
  if (head.method != "GET" && head.method != "HEAD") {
    if (is_simple_type(head.header("content-type")))
      return refuse(error_response(415, "invalid_request_error", "send application/json or application/octet-stream"));
    const std::string coding = lowered(head.header("content-encoding"));
    if (!coding.empty() && coding != "identity")
      return refuse(
          error_response(415, "invalid_request_error", "bodies are taken as they are, without Content-Encoding"));
  }
  const Phase phase = parts.phase.load(std::memory_order_relaxed);
  if (match.route->is_work && phase != Phase::ready) {
    HttpResponse response =
        error_response(503, "unavailable_error", phase == Phase::loading ? "Loading model" : "The server is stopping");
    response.closes = phase == Phase::stopping;
    return refuse(std::move(response));
  }
  const bool is_file =
      match.route->body == Route::Body::file && head.header("content-type").starts_with("application/octet-stream");
  const std::uint64_t own = match.route->max_body ? match.route->max_body : parts.options.max_body;
  const std::uint64_t most = match.route->body == Route::Body::none ? 0 : own;
  return {std::nullopt, is_file ? parts.options.max_upload : most, is_file};
}

void Service::handle(ExchangePointer exchange) {
  auto match = parts_->router.find(exchange->request.method, exchange->request.path);
  if (!match.route) return exchange->respond(error_response(404, "not_found_error", "nothing is served at this path"));
  exchange->route = match.route->pattern;
  match.route->handle({std::move(exchange), std::move(match.parameters)});
}

std::vector<HttpHeader> Service::headers(const HttpRequest& request) {
  std::vector<HttpHeader> out{{"Server", "weft/" + parts_->options.version}, {"X-Content-Type-Options", "nosniff"}};
  if (!is_asset_path(request.path)) out.push_back({"Cache-Control", "no-store"});  // assets say it for themselves
  parts_->access->add_cors(request, out);
  return out;
}

void Service::finished(const std::string& route, int status, std::chrono::nanoseconds took) {
  parts_->metrics.count(route, status, took);
}

}  // namespace weft::server
