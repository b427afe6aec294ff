// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_server.hpp"
#include "server/served_mesh.hpp"
#include "server/served_model.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace weft::server {

/// A server's statistics in Prometheus' text format. Labels are bounded: routes by their patterns, never by paths.
/// @thread any
/// @source Prometheus exposition format 0.0.4
class Metrics {
 public:
  explicit Metrics(std::string version);
  ~Metrics();

  /// `route`: its pattern; empty: no route was found.
  void count(const std::string& route, int status, std::chrono::nanoseconds took);
  /// All of it, from what meshes and models published: waits for none of them.
  std::string text(const std::vector<std::shared_ptr<ServedMesh>>& meshes,
                   const std::vector<std::shared_ptr<ServedModel>>& models, const HttpStatistics& http) const;

  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace weft::server
