// SPDX-License-Identifier: Apache-2.0

#include "cli/report.hpp"

#include "cli/json_line.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <tuple>

namespace weft::cli {
namespace {

using learning::Measurement;
using Align = Table::Align;

constexpr std::uint32_t kMostClasses = 20;
constexpr std::size_t kMostMistakes = 5, kPage = 100, kNameWidth = 24;

/// Classes by name, cut so that a statistic still stands beside them, and the page that they stand on.
struct Page {
  const std::vector<std::string>& names;
  std::size_t columns;
  bool unicode;

  std::string name(std::uint32_t label) const {
    if (label >= names.size()) return std::to_string(label);
    return fit(names[label], columns ? std::clamp<std::size_t>(columns - 13, 4, kNameWidth) : kNameWidth, unicode);
  }
  bool is_narrow() const { return columns && columns < kNameWidth + 40; }
};

std::string class_table(const Measurement& m, const Page& page) {
  std::vector<std::uint32_t> shown(m.classes());
  std::iota(shown.begin(), shown.end(), 0u);
  std::string heading = "class";
  if (shown.size() > kMostClasses) {
    const auto f1 = [&](std::uint32_t c) { return m.of_class(c).f1; };
    std::stable_sort(shown.begin(), shown.end(), [&](auto a, auto b) { return f1(a) < f1(b); });
    heading = "lowest of " + grouped(shown.size());
    shown.resize(kMostClasses / 2);
  }
  if (page.is_narrow()) {
    Table table({{heading}, {"F1", Align::right}});
    for (const std::uint32_t c : shown) table.add({page.name(c), percent(m.of_class(c).f1)});
    return table.text(page.columns);
  }
  Table table({{heading},
               {"samples", Align::right},
               {"precision", Align::right},
               {"recall", Align::right},
               {"F1", Align::right}});
  for (const std::uint32_t c : shown) {
    const Measurement::Class own = m.of_class(c);
    table.add({page.name(c), grouped(own.samples), percent(own.precision), percent(own.recall), percent(own.f1)});
  }
  return table.text(page.columns);
}

/// A row a label, a column an answer; nothing where it is wider than the page.
std::string matrix(const Measurement& m, const Page& page) {
  if (!m.has_matrix() || m.classes() > kMostClasses) return {};
  std::vector<Table::Column> heads{{"label \\ answer"}};
  std::size_t width = heads[0].heading.size();
  for (std::uint32_t c = 0; c < m.classes(); ++c) width = std::max(width, display_width(page.name(c)));
  for (std::uint32_t c = 0; c < m.classes(); ++c) {
    heads.push_back({page.name(c), Align::right});
    width += 2 + std::max<std::size_t>(display_width(heads.back().heading), 3);
  }
  if (width > (page.columns ? page.columns - 1 : kPage)) return {};
  Table table(std::move(heads));
  for (std::uint32_t label = 0; label < m.classes(); ++label) {
    std::vector<std::string> row{page.name(label)};
    for (std::uint32_t answer = 0; answer < m.classes(); ++answer) row.push_back(grouped(m.count(label, answer)));
    table.add(std::move(row));
  }
  return table.text(page.columns);
}

std::string mistakes(const Measurement& m, const Page& page) {
  if (!m.has_matrix()) return {};
  std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> all;
  for (std::uint32_t label = 0; label < m.classes(); ++label)
    for (std::uint32_t answer = 0; answer < m.classes(); ++answer)
      if (label != answer && m.count(label, answer)) all.emplace_back(m.count(label, answer), label, answer);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return std::get<0>(a) > std::get<0>(b); });
  if (all.size() > kMostMistakes) all.resize(kMostMistakes);
  std::string text;
  for (const auto& [count, label, answer] : all) {
    const std::string line =
        "mistakes    " + page.name(label) + " taken for " + page.name(answer) + ": " + grouped(count);
    text += (page.columns ? fit(line, page.columns - 1, page.unicode) : line) + "\n";
  }
  return text;
}

std::string value_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string errors(const learning::Evaluation& e, const AnswerNames& names, std::size_t columns) {
  Table table({{"target"},
               {"samples", Align::right},
               {"MSE", Align::right},
               {"MAE", Align::right},
               {"R2", Align::right},
               {"within 10 %", Align::right}});
  for (std::size_t i = 0; i < e.values().size(); ++i) {
    const learning::ValueErrors& own = e.values()[i];
    const auto share =
        static_cast<double>(own.relative_bins()[0]) / static_cast<double>(std::max<std::uint64_t>(own.samples(), 1));
    table.add({names.target(i), grouped(own.samples()), value_text(own.mse()), value_text(own.mae()),
               own.r2() ? value_text(*own.r2()) : "none", percent(share)});
  }
  return table.text(columns);
}

Json measurement_json(const Measurement& m, const std::vector<std::string>& names) {
  Json out{{"samples", m.samples()}, {"accuracy", m.accuracy()}, {"loss", m.loss()}};
  auto& classes = out["classes"] = Json::array();
  for (std::uint32_t c = 0; c < m.classes(); ++c) {
    const Measurement::Class own = m.of_class(c);
    classes.push_back({{"name", c < names.size() ? names[c] : std::to_string(c)},
                       {"samples", own.samples},
                       {"precision", own.precision},
                       {"recall", own.recall},
                       {"f1", own.f1}});
  }
  if (!m.has_matrix()) return out;
  auto& confusion = out["confusion"] = Json::array();
  for (std::uint32_t label = 0; label < m.classes(); ++label) {
    confusion.push_back(Json::array());
    for (std::uint32_t answer = 0; answer < m.classes(); ++answer) confusion.back().push_back(m.count(label, answer));
  }
  return out;
}

}  // namespace

std::string loss_text(double loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", loss);
  return text;
}

AnswerNames AnswerNames::of(const learning::Dataset& data, const learning::TaughtOutputs& of) {
  AnswerNames names;
  for (std::size_t i = 0; i < std::max<std::size_t>(data.heads.size(), 1); ++i)
    names.classes.push_back(data.classes_of(i).names);
  names.targets = data.target_names;
  names.take_outputs(of);
  return names;
}

void AnswerNames::take_outputs(const learning::TaughtOutputs& of) {
  if (!of.has_several()) return;
  const bool is_named = targets.size() == of.targets();
  for (std::size_t i = 0; i < of.targets(); ++i) {
    const auto& one = of.of_target(i);
    outputs.push_back(one.name);
    const std::string place = one.targets > 1 ? "[" + std::to_string(i - one.first_target + 1) + "]" : "";
    if (!is_named) targets.resize(i), targets.push_back(one.name + place);
  }
}

const std::vector<std::string>& AnswerNames::classes_of(std::size_t head) const {
  static const std::vector<std::string> none;
  return head < classes.size() ? classes[head] : none;
}

std::string evaluation_report(const learning::Evaluation& e, const AnswerNames& names, std::size_t columns,
                              bool unicode) {
  if (e.has_values()) return errors(e, names, columns);
  std::string text;
  for (std::size_t i = 0; i < e.heads().size(); ++i) {
    const Measurement& m = e.heads()[i];
    const Page page{names.classes_of(i), columns, unicode};
    if (e.heads().size() > 1)
      text += (i ? "\n" : "") + names.target(i) + ": " + percent(m.accuracy()) + " of " + grouped(m.samples()) + "\n";
    text += class_table(m, page);
    std::string confusion = matrix(m, page);
    if (confusion.empty()) confusion = mistakes(m, page);
    if (!confusion.empty()) text += "\n" + confusion;
  }
  return text;
}

void add_answer(Json& line, const learning::TaughtOutputs& outputs, std::span<const std::string> classes,
                std::span<const float> values) {
  for (const auto& one : outputs.all()) {
    Json& to = outputs.has_several() ? (line["outputs"][one.name] = Json::object()) : line;
    if (!classes.empty()) {
      const auto own = classes.subspan(one.first_target, one.targets);
      if (own.size() == 1)
        to["class"] = own[0];
      else
        to["classes"] = std::vector<std::string>(own.begin(), own.end());
    }
    for (std::size_t i = 0; !values.empty() && i < one.values; ++i)
      to["values"].push_back(as_written(values[one.first_value + i]));
  }
}

std::string evaluation_line(const learning::Evaluation& e) {
  const std::string of = " of " + grouped(e.samples());
  if (!e.has_values()) return percent(e.accuracy()) + of;
  const learning::ValueErrors& first = e.values()[0];
  std::string text =
      (first.r2() ? "R2 " + value_text(*first.r2()) + ", " : "") + "mean error " + value_text(first.mae()) + of;
  if (e.values().size() > 1) text += " (the first of " + grouped(e.values().size()) + " targets)";
  return text;
}

Json evaluation_json(const learning::Evaluation& e, const AnswerNames& names) {
  if (!e.has_values() && e.heads().size() == 1) return measurement_json(e.heads()[0], names.classes_of(0));
  Json out{{"samples", e.samples()}, {"loss", e.loss()}};
  if (e.has_values()) {
    auto& targets = out["targets"] = Json::array();
    for (std::size_t i = 0; i < e.values().size(); ++i) {
      const learning::ValueErrors& errors = e.values()[i];
      targets.push_back({{"name", names.target(i)},
                         {"mse", errors.mse()},
                         {"mae", errors.mae()},
                         {"r2", errors.r2() ? Json(*errors.r2()) : Json()},
                         {"relative_bins", errors.relative_bins()},
                         {"relative_score", errors.relative_score()}});
      if (!names.outputs.empty()) targets.back()["output"] = names.outputs[i];
    }
    return out;
  }
  out["accuracy"] = e.accuracy();
  auto& heads = out["heads"] = Json::array();
  for (std::size_t i = 0; i < e.heads().size(); ++i) {
    heads.push_back({{"name", names.target(i)}});
    if (!names.outputs.empty()) heads.back()["output"] = names.outputs[i];
    heads.back().update(measurement_json(e.heads()[i], names.classes_of(i)));
  }
  return out;
}

Json plasticity_json(const std::vector<learning::LayerPlasticity>& layers) {
  Json all = Json::array();
  for (const learning::LayerPlasticity& layer : layers) {
    Json one{{"layer", {layer.at.z, layer.at.y, layer.at.x, layer.at.l}}};
    if (!layer.inside.empty()) one["inside"] = layer.inside;
    one["dormant"] = layer.dormant;
    one["effective_rank"] = layer.effective_rank ? Json(*layer.effective_rank) : Json();
    one["weight_norm"] = layer.weight_norm;
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<std::string> plasticity_lines(const std::vector<learning::LayerPlasticity>& layers) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> lines;
  for (const learning::LayerPlasticity& layer : layers) {
    if (lines.size() == kMost) {
      lines.push_back("and " + grouped(layers.size() - kMost) + " more; --json has them all");
      break;
    }
    lines.push_back(to_string(layer.at) + (layer.inside.empty() ? "" : " " + layer.inside) + "  " +
                    percent(layer.dormant) + " dormant" +
                    (layer.effective_rank ? ", rank " + grouped(*layer.effective_rank) : "") + ", weights " +
                    value_text(layer.weight_norm));
  }
  return lines;
}

}  // namespace weft::cli
