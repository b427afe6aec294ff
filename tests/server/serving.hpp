// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/service.hpp"

#include "mesh/network/network.hpp"

#include "tests/server/client.hpp"
#include <memory>
#include <string>

namespace weft::testing {

/// The network of these tests: 4 inputs "x", a hidden layer of 8, outputs "y" of 3, learning by backprop where
/// `learns`.
mesh::NetworkSpec small_network(bool learns = true, const std::string& late = "none");
/// Its JSON text.
std::string small_network_json(bool learns = true, const std::string& late = "none");

/// A server in this process on a free port, ready.
class Serving {
 public:
  explicit Serving(server::Service::Options options = {}, server::HttpServer::Options http = {});
  server::Service& service() noexcept { return *service_; }
  const std::string& address() const { return service_->addresses().front(); }
  /// Asks on a connection of its own.
  Reply ask(std::string_view method, std::string_view path, std::string_view body = {},
            const std::vector<server::HttpHeader>& headers = {}) const;
  /// Makes the mesh of small_network under a name.
  void make(const std::string& name, bool learns = true, const std::string& late = "none");

 private:
  std::unique_ptr<server::Service> service_;
};

}  // namespace weft::testing
