// SPDX-License-Identifier: Apache-2.0

#include "cli/model.hpp"
#include "cli/output.hpp"
#include "cli/samples.hpp"
#include "cli/table_flags.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "learning/column_statistics.hpp"
#include "learning/dataset.hpp"
#include "learning/learner.hpp"
#include "learning/losses.hpp"
#include "learning/options.hpp"
#include "learning/split.hpp"
#include "learning/stream_options.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/network/network_json.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "kernels/activation.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace weft::cli {
namespace {

constexpr std::size_t kMaxWidth = std::size_t{1} << 24;
// Width of the two layers between, at least and at most.
constexpr std::size_t kNarrowest = 32, kWidest = 256;
constexpr std::uint32_t kWindow = 200;

struct NewRequest {
  std::optional<std::size_t> in, out;
  std::string hidden, from, output, name;
  TableFlags table;
  std::string activation = "tanh", rule = "backprop", schedule = "settle", loss;
  std::optional<double> lr, held_out;
  std::optional<std::uint64_t> epochs, seed, split_seed;
  bool raw = false, force = false;
};

/// Facts of a table about the network that is to learn it.
struct Found {
  learning::Dataset data;
  learning::Split split;
  learning::ColumnStatistics statistics;  // of the training part
};

/// "16,16" as widths; "none": no hidden layer.
Result<std::vector<std::size_t>> read_hidden(const std::string& text) {
  std::vector<std::size_t> widths;
  if (text == "none") return widths;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    std::size_t width = 0;
    const bool is_number = !part.empty() && part.size() < 9 && part.find_first_not_of("0123456789") == part.npos;
    if (is_number) width = std::stoul(part);
    if (width < 1 || width > kMaxWidth)
      return fail(Errc::invalid_argument,
                  "--hidden " + text + ": '" + part + "' is no width; give widths such as 16,16, or none");
    widths.push_back(width);
    at = end + 1;
  }
  return widths;
}

/// Two layers of a power of two not below the input's width.
std::vector<std::size_t> usual_hidden(std::size_t in) {
  std::size_t width = kNarrowest;
  while (width < in && width < kWidest) width *= 2;
  return {width, width};
}

/// Labels that begin at 1 or have gaps are given names, so that the output needs a value for each class and no more.
Result<learning::Dataset> read_table(const NewRequest& request, const learning::TableOptions& options) {
  storage::FileSystem& files = storage::real_file_system();
  learning::LabelBounds bounds;
  if (const std::size_t columns = learning::target_columns(options).size(); options.targets.empty() && columns > 1)
    bounds.heads.assign(columns, bounds.width);
  if (request.out) bounds.width = static_cast<std::uint32_t>(std::min<std::size_t>(*request.out, bounds.width));
  WEFT_TRY(auto data, learning::read_dataset(files, request.from, options, bounds));
  if (data.has_values() || request.out) return data;
  bool has_gaps = false;
  for (std::size_t i = 0; i < data.targets; ++i) {
    std::set<std::uint32_t> distinct;
    for (std::size_t at = i; at < data.labels.size(); at += data.targets) distinct.insert(data.labels[at]);
    distinct.erase(learning::kNoLabel);
    const learning::ClassSet classes = data.classes_of(i);
    has_gaps |= classes.names.empty() && distinct.size() != classes.count;
    (bounds.heads.empty() ? bounds.width : bounds.heads[i]) = static_cast<std::uint32_t>(distinct.size());
  }
  if (!has_gaps) return data;
  return learning::read_dataset(files, request.from, options, bounds);
}

/// A column of one value says nothing; its deviation is as good as any.
float usable_deviation(double deviation) {
  const auto rounded = static_cast<float>(deviation);
  return rounded > 1e-30f ? rounded : 1.0f;
}

Result<Found> look_at(const NewRequest& request, learning::StreamOptions& stream) {
  Found found;
  WEFT_TRY(found.data, read_table(request, stream.table));
  learning::Dataset& data = found.data;
  if (request.in && *request.in != data.features)
    return fail(Errc::shape_mismatch, "--in " + std::to_string(*request.in) + ": " + request.from + " has " +
                                          std::to_string(data.features) + " values a sample");
  // Bytes of images have one unit: 0 to 255. Standardised each by itself, pixels that are seldom lit would be huge.
  if (data.has_pixels && !request.raw) stream.table.scale = 1.0f / 255;
  found.split = learning::split_rows(data, stream.held_out, stream.stratified, *stream.split_seed);
  if (found.split.train.empty()) return fail(Errc::invalid_argument, request.from + ": no row is left to learn from");
  found.statistics = learning::column_statistics(data, found.split.train);
  if (stream.table.missing == learning::Missing::mean) {
    auto filled = learning::fill_missing(data, found.split.train, stream.table.fill);
    if (!filled) return fail(std::move(filled).error().within(request.from));
  }
  keep_class_names(data, stream.table);
  if (data.has_values() && !request.raw) {
    const learning::ColumnStatistics targets = learning::target_statistics(data, found.split.train);
    for (std::size_t i = 0; i < data.targets; ++i) {
      stream.table.target_mean.push_back(static_cast<float>(targets.mean[i]));
      stream.table.target_deviation.push_back(usable_deviation(targets.deviation[i]));
    }
  }
  return found;
}

/// Columns that look as if they numbered the rows.
void note_row_numbers(const Found& found, const std::string& path) {
  const learning::Dataset& data = found.data;
  for (std::size_t j = 0; j < data.features && data.size > 2; ++j) {
    bool counts = true;
    for (std::size_t i = 1; i < data.size && counts; ++i) counts = data.row(i)[j] == data.row(i - 1)[j] + 1;
    if (!counts) continue;
    const std::string name = j < data.names.size() ? " '" + escaped(data.names[j]) + "'" : "";
    std::fprintf(stderr, "weft: note: %s: value %zu%s numbers the rows; leave it out with --skip\n",
                 escaped(path).c_str(), j + 1, name.c_str());
  }
}

/// Classes with nothing to be told from, or to be learned by: a heading of numbers, or the wrong column.
void note_classes(const Found& found, const std::string& path) {
  const learning::Dataset& data = found.data;
  if (data.targets != 1 || data.has_values()) return;
  std::map<std::uint32_t, std::size_t> rows;
  for (const std::uint32_t label : data.labels) ++rows[label];
  const std::string place = escaped(path);
  if (rows.size() == 1)
    std::fprintf(stderr, "weft: note: %s: all rows are of one class; name the column of the class with --label\n",
                 place.c_str());
  if (data.size > 2 && rows.size() > 1 && rows[data.labels[0]] == 1)
    std::fprintf(
        stderr,
        "weft: note: %s: the first row is the only one of its class; if it is a heading, say --header present\n",
        place.c_str());
}

Json standardize_json(const learning::ColumnStatistics& statistics) {
  Json layer{{"type", "standardize"}, {"mean", Json::array()}, {"deviation", Json::array()}};
  for (std::size_t j = 0; j < statistics.mean.size(); ++j) {
    layer["mean"].push_back(as_written(static_cast<float>(statistics.mean[j])));
    layer["deviation"].push_back(as_written(usable_deviation(statistics.deviation[j])));
  }
  return layer;
}

Json chain_json(const NewRequest& request, const std::vector<std::size_t>& hidden, std::size_t out,
                const std::optional<Found>& found) {
  Json chain = Json::array();
  if (found && !request.raw && !found->data.has_pixels) chain.push_back(standardize_json(found->statistics));
  for (const std::size_t width : hidden)
    chain.push_back({{"type", "dense"}, {"out", width}, {"activation", request.activation}});
  chain.push_back({{"type", "dense"}, {"out", out}});
  return chain;
}

/// Keys on lines of their own, layers too, lists of numbers in one.
std::string pretty(const Json& network) {
  std::string text = "{";
  for (const auto* member : network.members_as_set()) {
    const auto& [key, value] = *member;
    text += (text.size() > 1 ? ",\n " : "") + Json(key).dump() + ": ";
    if (key != "chain") {
      text += value.dump(Json::Order::as_set);
      continue;
    }
    std::string layers;
    for (const Json& layer : value) layers += (layers.empty() ? "\n  " : ",\n  ") + layer.dump(Json::Order::as_set);
    text += "[" + layers + "]";
  }
  return text + "}\n";
}

/// The loss that suits the table, and what it needs.
Json loss_json(const NewRequest& request, const std::optional<Found>& found) {
  if (!request.loss.empty()) return {{"loss", request.loss}};
  if (found && found->data.has_values()) return {{"loss", name(kernels::default_loss(learning::LossTargets::values))}};
  if (!found || found->data.heads.empty())
    return {{"loss", name(kernels::default_loss(learning::LossTargets::labels))}};
  Json heads = Json::array();
  for (const learning::ClassSet& head : found->data.heads) heads.push_back(head.count);
  return {{"loss", name(kernels::default_loss(learning::LossTargets::head_labels))}, {"heads", std::move(heads)}};
}

/// Values of the output that the table needs.
std::size_t outputs_of(const learning::Dataset& data) {
  if (data.has_values()) return data.targets;
  std::size_t all = 0;
  for (std::size_t i = 0; i < std::max<std::size_t>(data.heads.size(), 1); ++i) all += data.classes_of(i).count;
  return all;
}

Json learning_json(const NewRequest& request, const std::optional<Found>& found) {
  Json optimizer{{"type", "momentum"}};
  if (request.lr)
    optimizer["lr"] = *request.lr;
  else if (request.rule == "backprop")
    optimizer["lr"] = 0.01;
  Json out{{"rule", request.rule}, {"schedule", request.schedule}};
  out.update(loss_json(request, found));
  out["optimizer"] = optimizer;
  if (request.table.weight) out["weights"] = true;
  return out;
}

/// The section that says how the table is learned.
Json stream_json(const NewRequest& request, const learning::StreamOptions& stream, const Found& found) {
  const auto path = request.output.empty() ? std::nullopt : path_from(request.output, request.from);
  Json out{{"csv", path.value_or(request.from)}};
  const Json all = *parse_json(learning::write_stream(stream), "stream");
  for (const char* key : {"label", "labels", "targets", "target_mean", "target_deviation", "weight", "skip",
                          "separator", "header", "missing", "fill", "classes", "head_classes"})
    if (all.contains(key)) out[key] = all[key];
  if (stream.table.scale != 1.0f) out["scale"] = as_written(stream.table.scale);
  const std::uint64_t train = found.split.train.size();
  out["held_out"] = stream.held_out;
  if (stream.stratified) out["stratified"] = true;
  out["split_seed"] = *stream.split_seed;
  out["epochs"] = request.epochs.value_or(usual_epochs(train));
  out["window"] = std::min<std::uint64_t>(kWindow, train);
  return out;
}

Status check(const NewRequest& r) {
  std::string missing;
  if (r.from.empty() && !r.in) missing = "--in";
  if (r.from.empty() && !r.out) missing += missing.empty() ? "--out" : " and --out";
  if (!missing.empty())
    return fail(Errc::invalid_argument, missing +
                                            ": say how many values a sample has and how many classes there are, "
                                            "or let a table say it with --from FILE.csv");
  if (r.output.empty()) return {};
  std::error_code unknown;
  if (!r.force && std::filesystem::exists(r.output, unknown))
    return fail(Errc::invalid_argument, "--output " + r.output + ": is there already; --force writes over it");
  return r.from.empty() ? check_output("--output", r.output) : check_output("--output", r.output, r.from);
}

/// A loss of values makes the label's column one of values; one of classes has no use for targets.
Status check_loss(const NewRequest& request, learning::TableOptions& table) {
  if (request.loss.empty()) return {};
  const bool has_values = targets_of(*learning::parse_loss(request.loss)) == learning::LossTargets::values;
  if (has_values && table.targets.empty()) table.targets = learning::target_columns(table);
  if (!has_values && !(table.targets.empty() && table.labels.empty()))
    return fail(Errc::invalid_argument, "--loss " + request.loss + ": learns one label a row; leave it out, or give " +
                                            learning::loss_words(learning::LossTargets::values, true) +
                                            " with --target");
  return {};
}

Status make_network(const NewRequest& request) {
  WEFT_CHECK(check(request));
  learning::StreamOptions stream;
  apply(request.table, stream.table);
  WEFT_CHECK(check_loss(request, stream.table));
  stream.held_out = request.held_out.value_or(stream.held_out);
  stream.stratified = stream.table.targets.empty() && stream.table.labels.empty();
  stream.split_seed = request.split_seed.value_or(0);
  std::optional<Found> found;
  if (!request.from.empty()) {
    WEFT_TRY(found, look_at(request, stream));
    note_row_numbers(*found, request.from);
    note_classes(*found, request.from);
  }
  const std::size_t in = found ? found->data.features : *request.in;
  const std::size_t out = request.out.value_or(found ? outputs_of(found->data) : 1);
  std::vector<std::size_t> hidden = usual_hidden(in);
  if (!request.hidden.empty()) {
    WEFT_TRY(hidden, read_hidden(request.hidden));
  }
  std::string name = request.name;
  if (name.empty()) name = found ? std::filesystem::path(request.from).stem().stem().string() : "network";
  Json network{{"weft", 2}, {"name", name}};
  if (request.seed) network["seed"] = *request.seed;
  network["inputs"] = {{"x", {in}}};
  network["chain"] = chain_json(request, hidden, out, found);
  network["learning"] = learning_json(request, found);
  if (found) network["stream"] = stream_json(request, stream, *found);
  const std::string text = pretty(network);
  // The text is read back before it is written, so no file of ours is refused.
  WEFT_TRY(const auto spec, mesh::read_network(text, request.output.empty() ? "network" : request.output));
  WEFT_TRY(const auto graph, mesh::Graph::build(spec));
  if (request.output.empty()) {
    std::printf("%s", escaped_json(text).c_str());
    return {};
  }
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), request.output, as_bytes(text)));
  const bool has_values = found && found->data.has_values();
  const std::size_t sets = found ? found->data.heads.size() : 0;
  const std::string answers = has_values ? std::to_string(out) + (out == 1 ? " target" : " targets")
                              : sets     ? std::to_string(sets) + " labels of " + std::to_string(out) + " classes"
                                         : std::to_string(out) + " classes";
  std::fprintf(stderr, "weft: %s: %zu values, %s; %s\n", escaped(request.output).c_str(), in, answers.c_str(),
               found ? ("learn with: weft run " + escaped(request.output)).c_str()
                     : ("learn with: weft run " + escaped(request.output) + " --data FILE.csv").c_str());
  return {};
}

}  // namespace

Verb add_new(CLI::App& program) {
  CLI::App* app = add_verb(program, "new", "Write a network for a table: layers one behind the other");
  auto request = std::make_shared<NewRequest>();
  NewRequest& r = *request;
  add_option(*app, "in", r.in, "Values of a sample; else the table's")
      .within(std::uint64_t{1}, std::uint64_t{kMaxWidth});
  add_option(*app, "hidden", r.hidden, "Widths of the layers between, such as 16,16, or none").type_name("WIDTHS");
  add_option(*app, "out", r.out, "Classes; else the table's").within(std::uint64_t{1}, std::uint64_t{kMaxWidth});
  add_option(*app, "from", r.from, "A table to learn: widths, classes, standardisation and epochs are taken from it")
      .type_name("FILE.csv");
  add_table_flags(*app, r.table);
  std::vector<std::string> losses;
  for (const auto targets : {learning::LossTargets::labels, learning::LossTargets::values})
    for (const std::string_view loss : learning::loss_names(targets, true)) losses.emplace_back(loss);
  one_of(add_option(*app, "loss", r.loss, "What is learned; else mse with --target, and cross_entropy"), losses);
  std::vector<std::string> activations;
  for (int i = 0; i < kernels::kActivationCount; ++i)
    activations.emplace_back(kernels::name(static_cast<kernels::Activation>(i)));
  one_of(add_option(*app, "activation", r.activation, "Of the layers between"), activations);
  const auto rules = learning::rule_names();
  one_of(add_option(*app, "rule", r.rule, "How errors reach the layers"),
         std::vector<std::string>(rules.begin(), rules.end()));
  one_of(add_option(*app, "schedule", r.schedule, "Hold each sample until settled, or a new one every tick"),
         {"settle", "pipelined"});
  add_option(*app, "lr", r.lr, "Learning rate").within(1e-9, 1000.0);
  add_option(*app, "epochs", r.epochs, "How often the training samples are streamed")
      .within(std::uint64_t{1}, std::uint64_t{1} << 30);
  add_option(*app, "held-out", r.held_out, "Share of each class kept for measuring").within(0.0, 0.99);
  add_option(*app, "seed", r.seed, "Seed of the weights");
  add_option(*app, "split-seed", r.split_seed, "Seed that decides which rows are held out");
  add_option(*app, "name", r.name, "Name of the network; else the table's");
  add_flag(*app, "raw", r.raw, "Inputs as they are, not standardised");
  add_output(*app, r.output, "Where it is written; else to stdout", "FILE.json");
  add_flag(*app, "force", r.force, "Write over a file that is there");
  return {app, [request] { return make_network(*request); }};
}

}  // namespace weft::cli
