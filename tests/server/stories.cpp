// SPDX-License-Identifier: Apache-2.0

#include "tests/server/stories.hpp"

#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace weft::testing {

std::string Streamed::text(std::size_t index) const {
  std::string all;
  for (const Json& each : events)
    for (const Json& choice : each["choices"]) {
      if (choice["index"] != index) continue;
      if (choice.contains("text")) all += choice["text"].text();
      const Json& delta = choice["delta"];
      if (delta.is_object() && delta.contains("content")) all += delta["content"].text();
    }
  return all;
}

Streamed streamed(Reply reply) {
  Streamed out;
  std::string_view rest = reply.body;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\n\n"), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    EXPECT_FALSE(out.is_done) << "something after [DONE]: " << line;
    if (line.starts_with(":")) continue;
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    if (line == "data: [DONE]")
      out.is_done = true;
    else
      out.events.push_back(parse_json(line.substr(6), "event").value());
  }
  out.reply = std::move(reply);
  return out;
}

server::ServedModel::Options Stories::usual() { return {.engine = {.slots = 3, .context = 128}}; }

Stories::Stories(server::ServedModel::Options options)
    : Stories([&] {
        server::ModelTable::Options models;
        models.serving = options;
        return models;
      }()) {}

Stories::Stories(server::ModelTable::Options options)
    : serving_([&] {
        server::Service::Options service;
        service.models = std::move(options);
        return service;
      }()) {
  EXPECT_TRUE(load("stories"));
}

Result<std::shared_ptr<server::ServedModel>> Stories::load(const std::string& name) {
  return serving_.service().models().load(storage::real_file_system(), name, shared_data("stories260K/derived"));
}

Json Stories::ask(std::string_view path, const Json& request) const {
  const Reply reply = serving_.ask("POST", path, request.dump());
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.json();
}

Streamed Stories::stream(std::string_view path, const Json& request) const {
  Client client(serving_.address());
  Reply reply = client.ask("POST", path, request.dump());
  EXPECT_EQ(reply.status, 200) << reply.body;
  reply.body = client.read_chunks().value_or("");
  // The connection can be used again.
  EXPECT_EQ(client.ask("GET", "/health").status, 200);
  return streamed(std::move(reply));
}

}  // namespace weft::testing
