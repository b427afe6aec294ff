// SPDX-License-Identifier: Apache-2.0

#include "cli/asked_model.hpp"

#include "mesh/mesh_access.hpp"

#include <utility>

namespace weft::cli {
namespace {

/// The one that the section "stream" names, or the only one there is.
template <class Specs>
Result<std::string> chosen(const Specs& specs, const std::string& name, const std::string& what) {
  if (!name.empty()) return name;
  if (specs.size() == 1) return specs[0].name;
  return fail(Errc::invalid_argument, "stream." + what + ": the network has " + std::to_string(specs.size()) + " " +
                                          what + "s; name the one that is meant");
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
    WEFT_TRY(asked->learner_, within(learning::Learner::build(*asked->loaded_.mesh, learning)));
  }
  if (!spec.stream.empty()) {
    WEFT_TRY(asked->options_, within(learning::read_stream(spec.stream)));
  }
  learning::StreamOptions& o = asked->options_;
  WEFT_TRY(o.input, within(chosen(spec.inputs, o.input, "input")));
  WEFT_TRY(o.output, within(chosen(spec.outputs, o.output, "output")));
  const mesh::Graph& graph = asked->loaded_.mesh->graph();
  const auto port = graph.find_port(o.input);
  const auto output = graph.find_output(o.output);
  if (!port || !output)
    return fail(Errc::unknown_name,
                path + ": stream: no " + (port ? "output is named '" + o.output : "input is named '" + o.input) + "'");
  asked->features_ = graph.nodes()[*port].width;
  asked->width_ = graph.nodes()[*output].width;
  asked->hold_ = (asked->learner_ ? *asked->learner_ : *asked->loaded_.learner).hold();
  asked->parts_ = learning::label_parts(asked->output(), learning);
  if (asked->names_columns()) {
    WEFT_TRY(const auto bounds, within(learning::label_bounds(asked->output(), learning, o.table)));
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
  const mesh::RunOutput output{options_.output, outputs};
  return mesh::MeshAccess::evaluate_copies(*loaded_.mesh, 0, {&input, 1}, rows, hold_, {&output, 1});
}

std::string AskedModel::class_name(std::size_t part, std::uint32_t answer) const {
  const learning::TableOptions& table = options_.table;
  if (learning_.heads.empty()) return answer < table.classes.size() ? table.classes[answer] : std::to_string(answer);
  const bool is_named = part < table.head_classes.size() && answer < table.head_classes[part].size();
  return is_named ? table.head_classes[part][answer] : std::to_string(answer);
}

learning::Evaluation AskedModel::evaluation() const {
  std::vector<std::uint32_t> classes;
  for (std::size_t i = 0; i < class_sets(); ++i)
    classes.push_back(static_cast<std::uint32_t>(parts_[i + 1] - parts_[i]));
  return {output(), learning_, classes, units_};
}

AnswerNames AskedModel::names() const {
  AnswerNames names;
  names.classes = options_.table.head_classes;
  if (learning_.heads.empty()) names.classes.assign(1, options_.table.classes);
  // Numbers and places are no names.
  const std::vector<std::string> columns = learning::target_columns(options_.table);
  const bool is_named =
      columns.size() == answers() && std::none_of(columns.begin(), columns.end(), [](const std::string& column) {
        return column == "first" || column == "last" || column.find_first_not_of("0123456789") == column.npos;
      });
  if (is_named) names.targets = columns;
  return names;
}

}  // namespace weft::cli
