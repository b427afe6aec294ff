// SPDX-License-Identifier: Apache-2.0

#include "server/request_reader.hpp"
#include "server/service.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace {

using namespace weft::server;

/// Answers into a text.
class Told final : public HttpExchange {
 public:
  explicit Told(std::string& to) : to_(to) {}
  using HttpExchange::respond;
  void respond(HttpResponse response) override { to_ += std::to_string(response.status) + " "; }
  std::shared_ptr<HttpStream> stream(HttpResponse) override { return nullptr; }

 private:
  std::string& to_;
};

Service& service() {
  static const std::unique_ptr<Service> made = [] {
    auto service = Service::make({.max_body = 1 << 16}).value();
    service->ready();
    return service;
  }();
  return *made;
}

/// Requests and answers, of bytes that come in pieces of one size.
std::string all_of(std::string_view bytes, std::size_t piece) {
  RequestReader reader(4096);
  std::string seen;
  std::size_t first = 0, last = 0;
  while (!reader.bad()) {
    const bool was_head = reader.state() == RequestReader::State::head;
    const std::size_t taken = reader.feed(bytes.substr(first, last - first));
    WEFT_ASSERT(taken <= last - first, "more was taken than there was");
    first += taken;
    if (was_head && reader.state() == RequestReader::State::body) {
      reader.request().peer = "unix";
      const auto admission = service().admit(reader.request());
      seen += reader.request().method + reader.request().path + (admission.refusal ? "-" : "+");
      reader.accept_body(admission.refusal ? 1 << 16 : std::min<std::uint64_t>(admission.max_body, 1 << 16));
    }
    if (reader.state() == RequestReader::State::done) {
      auto exchange = std::make_shared<Told>(seen);
      exchange->request = std::move(reader.request());
      WEFT_ASSERT(exchange->request.body.size() <= 1 << 16, "a body beyond its limit");
      seen += exchange->request.body;
      // Networks are fuzzed elsewhere; here no thread is to answer.
      if (exchange->request.method == "GET" && exchange->request.path != "/metrics") service().handle(exchange);
      reader.reset();
    } else if (taken == 0) {
      if (last == bytes.size() && !reader.bad()) return seen;
      last = std::min(bytes.size(), last + piece);
    }
  }
  return seen + std::to_string(reader.bad()->status);
}

}  // namespace

// The same requests and the same answers, however the bytes are cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 1 << 16));
  const std::string whole = all_of(bytes, bytes.size() + 1), pieces = all_of(bytes, 7);
  WEFT_ASSERT(whole == pieces, "other requests in pieces: '" + whole + "', '" + pieces + "'");
  return 0;
}
