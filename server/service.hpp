// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/access.hpp"
#include "server/http_server.hpp"
#include "server/mesh_table.hpp"
#include "server/model_table.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::server {

/// A server of meshes and language models: everything between HTTP and them. Answers requests as functions of requests,
/// so that tests and fuzzers need no socket.
///   auto service = Service::make(options);  service->listen({.listen = {"127.0.0.1:0"}});  service->ready();
/// @thread one at a time; what HttpHandler has: any
class Service final : public HttpHandler {
 public:
  struct Options {
    Access::Options access{};
    MeshTable::Options meshes{};
    ModelTable::Options models{};
    std::string model_directory{};      ///< of .entity files that clients may name; empty: none
    std::uint64_t max_body = 8u << 20;  ///< of requests that are no files
    std::uint64_t max_upload = std::uint64_t{4} << 30;
    bool allows_weights = false;
    std::string version = "unknown";
    NumaMode numa = NumaMode::off;
    std::optional<topology::Machine> machine{};  ///< for `numa`; none: the running one
    std::string bridge_root{};  ///< of planetbridging's fixtures, models and reports; empty: its routes are not served
    /// Answers of `/` and `/assets/...`; empty: 404.
    std::function<std::optional<HttpResponse>(const HttpRequest&)> assets{};
  };

  static Result<std::unique_ptr<Service>> make(Options options);
  /// Stops at once, without checkpoints.
  ~Service() override;

  /// Opens the sockets; requests are answered by 503 until `ready`. @error as HttpServer::open
  Status listen(HttpServer::Options options);
  const std::vector<std::string>& addresses() const noexcept;
  MeshTable& meshes() noexcept;
  ModelTable& models() noexcept;
  Access& access() noexcept;
  /// From now on work is taken.
  void ready() noexcept;
  /// No new work is taken; what is being done may end within `time`; then every mesh executes what waits and takes a
  /// checkpoint. @error of the first checkpoint that fails
  Status stop(std::chrono::milliseconds time);

  Admission admit(const HttpRequest& head) override;
  void handle(ExchangePointer exchange) override;
  std::vector<HttpHeader> headers(const HttpRequest& request) override;
  void finished(const std::string& route, int status, std::chrono::nanoseconds took) override;

 private:
  struct Parts;
  explicit Service(std::unique_ptr<Parts> parts);
  void add_probes();
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::server
