// SPDX-License-Identifier: Apache-2.0

#include "models/model_digest.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/archive.hpp"

#include <span>
#include <string>

namespace weft::models {
namespace {

/// With its length, so that two texts one after the other are not another two.
void add(StateHasher& to, const std::string& text) {
  to.add(std::uint64_t{text.size()});
  to.add_bytes(text.data(), text.size());
}

}  // namespace

ModelDigest digest_of(const LanguageModel& model) {
  ModelDigest out;
  StateHasher hasher;
  HashArchive archive(hasher);
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(*model.mesh);
  for (mesh::NodeId node = 0; node < weights.node_count(); ++node) weights.visit_layer(node, archive);
  out.weights = hasher.digest();

  hasher.reset();
  hasher.add(model.mesh->network_digest());
  hasher.add(std::uint64_t{model.tokenizer->size()});
  for (std::size_t id = 0; id < model.tokenizer->size(); ++id)
    add(hasher, model.tokenizer->token_bytes(static_cast<text::TokenId>(id)));
  for (const auto* const each : {&model.chat.chat, &model.chat.tools}) add(hasher, *each ? (*each)->source() : "");
  for (const text::TokenId end : model.ends) hasher.add(std::uint64_t{end});
  out.options = hasher.digest();
  return out;
}

}  // namespace weft::models
