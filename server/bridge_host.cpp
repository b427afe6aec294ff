// SPDX-License-Identifier: Apache-2.0

#include "server/bridge_api.hpp"

#include "core/log.hpp"

#include <exception>
#include <memory>
#include <new>
#include <utility>

namespace weft::server {
namespace {

/// An exception of a handler becomes an answer: its thread goes on.
HttpResponse made_or_failed(const std::function<HttpResponse()>& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return error_response(500, "server_error", "not enough memory");
  } catch (const std::exception& unforeseen) {
    log_error(std::string("bridge: ") + unforeseen.what());
    return error_response(500, "server_error", "a defect in Weft itself; see its log");
  }
}

}  // namespace

void BridgeHost::submit(ExchangePointer exchange, std::function<HttpResponse()> make) {
  const auto shared = std::make_shared<std::function<HttpResponse()>>(std::move(make));
  const auto work = [exchange, shared] {
    if (!exchange->is_cancelled()) exchange->respond(made_or_failed(*shared));
  };
  for (Worker& each : workers_)
    if (each.submit(work)) return;
  exchange->respond(error_response(503, "unavailable_error", "too many requests wait to be computed"));
}

void BridgeHost::stop() {
  for (Worker& each : workers_) each.stop();
}

}  // namespace weft::server
