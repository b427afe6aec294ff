// SPDX-License-Identifier: Apache-2.0

#include "cli/asked_model.hpp"

#include "mesh/mesh_access.hpp"

#include <utility>

namespace weft::cli {
namespace {

/// The input that the section "stream" names, or the only one there is.
Result<std::string> chosen(const mesh::NetworkSpec& spec, const std::string& name) {
  if (!name.empty()) return name;
  if (spec.inputs.size() == 1) return spec.inputs[0].name;
  return fail(Errc::invalid_argument, "stream.input: the network has " + std::to_string(spec.inputs.size()) +
                                          " inputs; name the one that is meant");
}

}  // namespace

Result<std::unique_ptr<AskedModel>> AskedModel::open(const std::string& path, mesh::MeshOptions options) {
  auto asked = std::make_unique<AskedModel>();
  WEFT_TRY(asked->model_, read_kept_model(path));
  const auto within = [&](auto result) {
    return result ? std::move(result) : decltype(result)(fail(std::move(result).error().within(path)));
  };
  const mesh::NetworkSpec& spec = asked->model_.spec;
  WEFT_TRY(asked->loaded_, within(load(asked->model_, options)));
  learning::LearningOptions& learning = asked->learning_;
  if (!spec.learning.empty()) {
    WEFT_TRY(learning, within(learning::read_learning(spec.learning)));
  }
  if (!asked->loaded_.learner) {
    // Asking stores no samples, and holds no weights.
    learning::LearningOptions plain = learning;
    plain.replay = {}, plain.consolidation = {}, plain.renew = {}, plain.perturb = {};
    WEFT_TRY(asked->learner_, within(learning::Learner::build(*asked->loaded_.mesh, plain)));
  }
  if (!spec.stream.empty()) {
    WEFT_TRY(asked->options_, within(learning::read_stream(spec.stream, false)));
  }
  learning::StreamOptions& o = asked->options_;
  WEFT_TRY(o.input, within(chosen(spec, o.input)));
  const mesh::Graph& graph = asked->loaded_.mesh->graph();
  const auto port = graph.find_port(o.input);
  if (!port) return fail(Errc::unknown_name, path + ": stream: no input is named '" + o.input + "'");
  WEFT_TRY(asked->outputs_, within(learning::TaughtOutputs::of(graph, o, learning)));
  asked->features_ = graph.nodes()[*port].width;
  asked->hold_ = (asked->learner_ ? *asked->learner_ : *asked->loaded_.learner).hold();
  if (asked->names_columns()) {
    WEFT_TRY(const auto bounds, within(learning::label_bounds(asked->outputs_, learning, o.table)));
  }
  asked->units_ = learning::TargetUnits(o.table);
  return asked;
}

/// A model that was trained through the API may give several answers and name no column of a table.
bool AskedModel::names_columns() const {
  const learning::TableOptions& t = options_.table;
  return answers() == 1 ||
         !(t.labels.empty() && t.targets.empty() && t.target_mean.empty() && t.target_deviation.empty());
}

Status AskedModel::answer(std::span<const float> inputs, std::size_t rows, std::span<float> outputs) const {
  const mesh::RunInput input{options_.input, inputs};
  return outputs_.ask(rows, outputs, [&](std::span<const mesh::RunOutput> to) {
    return mesh::MeshAccess::evaluate_copies(*loaded_.mesh, 0, {&input, 1}, rows, hold_, to);
  });
}

std::string AskedModel::class_name(std::size_t part, std::uint32_t answer) const {
  const learning::TableOptions& table = options_.table;
  if (outputs_.own_classes().empty())
    return answer < table.classes.size() ? table.classes[answer] : std::to_string(answer);
  const bool is_named = part < table.head_classes.size() && answer < table.head_classes[part].size();
  return is_named ? table.head_classes[part][answer] : std::to_string(answer);
}

learning::Evaluation AskedModel::evaluation() const {
  std::vector<std::uint32_t> classes;
  for (std::size_t i = 0; i < class_sets(); ++i)
    classes.push_back(static_cast<std::uint32_t>(parts()[i + 1] - parts()[i]));
  return {outputs_, learning_, classes, units_};
}

AnswerNames AskedModel::names() const {
  AnswerNames names;
  names.classes = options_.table.head_classes;
  if (outputs_.own_classes().empty()) names.classes.assign(1, options_.table.classes);
  // Numbers and places are no names.
  const std::vector<std::string> columns = learning::target_columns(options_.table);
  const bool is_named =
      columns.size() == answers() && std::none_of(columns.begin(), columns.end(), [](const std::string& column) {
        return column == "first" || column == "last" || column.find_first_not_of("0123456789") == column.npos;
      });
  if (is_named) names.targets = columns;
  names.take_outputs(outputs_);
  return names;
}

}  // namespace weft::cli
