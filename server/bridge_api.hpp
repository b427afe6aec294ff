// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/report_store.hpp"
#include "server/router.hpp"
#include "server/worker.hpp"

#include <array>
#include <functional>
#include <string>

namespace weft::server {

/// Parts of a server that planetbridging's routes need: the directories below `root`, and threads that compute. Lasts
/// as long as the router that they were added to.
/// @thread any
class BridgeHost {
 public:
  explicit BridgeHost(std::string root) : reports_(std::move(root)) {}
  bridge::ReportStore& reports() noexcept { return reports_; }
  /// Answers the exchange by `make` on one of the threads, or 503 where too many requests wait.
  void submit(ExchangePointer exchange, std::function<HttpResponse()> make);
  /// Ends what is being done, and drops what waits.
  void stop();

 private:
  bridge::ReportStore reports_;
  std::array<Worker, 2> workers_;
};

/// The routes of planetbridging's HTTP host: /api/v1/loom/..., /api/v1/report, /api/v1/reports, /api/v1/compare
/// (docs/bridge.md).
void add_bridge_routes(Router& router, BridgeHost& host);

}  // namespace weft::server
