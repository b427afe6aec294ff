// SPDX-License-Identifier: Apache-2.0

#include "tests/server/serving.hpp"

#include "mesh/network/network_json.hpp"

#include "core/assert.hpp"

#include <utility>

namespace weft::testing {

mesh::NetworkSpec small_network(bool learns, const std::string& late) {
  auto spec = mesh::NetworkBuilder("small", {.z = 1, .y = 1, .x = 2})
                  .input("x", 4)
                  .dense({0, 0, 0, 0}, 8, kernels::Activation::tanh)
                  .from({"x"})
                  .dense({0, 0, 1, 0}, 3)
                  .output("y", {0, 0, 1, 0})
                  .seed(7)
                  .spec();
  if (learns)
    spec.learning =
        R"({"rule":"backprop","loss":"cross_entropy","optimizer":{"type":"sgd","lr":0.1},"late":")" + late + R"("})";
  return spec;
}

std::string small_network_json(bool learns, const std::string& late) {
  return mesh::write_network(small_network(learns, late), -1).value();
}

Serving::Serving(server::Service::Options options, server::HttpServer::Options http) {
  if (options.meshes.mesh.threads == 0) options.meshes.mesh.threads = 1;
  options.version = "test";
  service_ = server::Service::make(std::move(options)).value();
  if (http.listen.empty()) http.listen = {"127.0.0.1:0"};
  const Status listens = service_->listen(std::move(http));
  WEFT_ASSERT(listens.has_value(), listens ? "" : listens.error().text());
  service_->ready();
}

Reply Serving::ask(std::string_view method, std::string_view path, std::string_view body,
                   const std::vector<server::HttpHeader>& headers) const {
  return Client(address()).ask(method, path, body, headers);
}

void Serving::make(const std::string& name, bool learns, const std::string& late) {
  const auto made = service_->meshes().create(name, small_network(learns, late), {});
  WEFT_ASSERT(made.has_value(), made ? "" : made.error().text());
}

}  // namespace weft::testing
