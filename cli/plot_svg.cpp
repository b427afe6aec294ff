// SPDX-License-Identifier: Apache-2.0

#include "cli/plot_svg.hpp"

#include "cli/network_picture.hpp"
#include "cli/text_format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>
#include <utility>

namespace weft::cli {
namespace {

// Okabe and Ito's colors, which people with any color vision tell apart.
constexpr std::string_view kLineColors[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};
constexpr double kWidth = 760, kHeight = 420, kLeft = 70, kRight = 20, kTop = 50, kBottom = 55, kLegendLine = 16;
// Of a long curve; shorter ones keep their points.
constexpr std::size_t kBins = 160;

// Colors stand in each rule: rsvg-convert, which makes PNG of the picture, knows no variables, and passes over @media.
constexpr std::string_view kPlotStyle = R"(
  .plot text { font-family: ui-sans-serif, system-ui, sans-serif; font-size: 12px; fill: #59636e; }
  .plot .title { font-size: 16px; font-weight: 600; fill: #1b1f24; }
  .plot .paper { fill: #ffffff; } .plot .rule { stroke: #d0d7de; }
  .plot .change { stroke: #59636e; stroke-width: 1.2; stroke-dasharray: 4 3; }
  .plot .alarm { stroke: #d55e00; stroke-width: 1.2; } .plot .alarm-head { fill: #d55e00; }
  .plot .warning { stroke: #e69f00; stroke-width: 1.2; stroke-dasharray: 1 3; }
  .plot .warning-head { fill: #ffffff; stroke: #e69f00; stroke-width: 1.2; }
  .plot .end { text-anchor: end; } .plot .middle { text-anchor: middle; }
  .plot .cell { text-anchor: middle; font-variant-numeric: tabular-nums; }
  .plot .on-light { fill: #1b1f24; } .plot .on-dark { fill: #ffffff; }
  .plot .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .plot .band { opacity: .2; }
  @media (prefers-color-scheme: dark) {
    .plot text { fill: #9da7b3; } .plot .title { fill: #e6edf3; } .plot .paper { fill: #0d1117; }
    .plot .rule { stroke: #30363d; } .plot .change { stroke: #9da7b3; } .plot .warning-head { fill: #0d1117; }
  }
)";
std::string place(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// A number beside an axis.
std::string label(double value) {
  char text[32];
  const double size = std::abs(value);
  if (size >= 1000 && size < 1e15 && value == std::floor(value))
    return (value < 0 ? "-" : "") + grouped(static_cast<std::uint64_t>(size));
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string words_at(double x, double y, std::string_view kind, const std::string& text) {
  return "<text x=\"" + place(x) + "\" y=\"" + place(y) + "\" class=\"" + std::string(kind) + "\">" + xml_text(text) +
         "</text>\n";
}
std::string rule_at(double x1, double y1, double x2, double y2, std::string_view kind) {
  return "<line x1=\"" + place(x1) + "\" y1=\"" + place(y1) + "\" x2=\"" + place(x2) + "\" y2=\"" + place(y2) +
         "\" class=\"" + std::string(kind) + "\"/>\n";
}

std::string begin(double width, double height, const std::string& title) {
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" width=\"" + place(width) +
                    "\" height=\"" + place(height) + "\" viewBox=\"0 0 " + place(width) + " " + place(height) + "\">\n";
  out += "<title>" + xml_text(title) + "</title>\n<style>" + std::string(kPlotStyle) + "</style>\n";
  out += "<rect class=\"paper\" width=\"" + place(width) + "\" height=\"" + place(height) + "\"/>\n";
  return out + words_at(20, 28, "title", title);
}

/// Numbers along an axis: about `count` multiples of 1, 2 or 5 times a power of ten.
std::vector<double> marks(double low, double high, int count) {
  const double rough = (high - low) / count, power = std::pow(10.0, std::floor(std::log10(rough)));
  const double share = rough / power, step = (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10) * power;
  std::vector<double> all;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; (first + i) * step <= high + step * 1e-9 && i < 100; ++i) all.push_back((first + i) * step);
  return all;
}

/// A line of the picture, and what lies around it.
struct Band {
  std::vector<double> x, mean, deviation;  // deviation empty: of one curve
};

/// Means of a curve's points over equal parts of [low, high]; parts without points lie between their neighbours.
std::vector<double> binned(const Curve& curve, double low, double high, std::size_t bins) {
  std::vector<double> sums(bins, 0.0), counts(bins, 0.0);
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    const double share = high > low ? (curve.x[i] - low) / (high - low) : 0.0;
    const auto bin = std::min(static_cast<std::size_t>(std::max(share, 0.0) * static_cast<double>(bins)), bins - 1);
    sums[bin] += curve.y[i];
    counts[bin] += 1.0;
  }
  std::size_t before = bins;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    if (counts[bin] == 0.0) continue;
    sums[bin] /= counts[bin];
    const std::size_t from = before == bins ? 0 : before + 1;
    for (std::size_t gap = from; gap < bin; ++gap) {
      const double share = before == bins ? 1.0 : static_cast<double>(gap - before) / static_cast<double>(bin - before);
      sums[gap] = before == bins ? sums[bin] : sums[before] + share * (sums[bin] - sums[before]);
    }
    before = bin;
  }
  for (std::size_t gap = before == bins ? bins : before + 1; gap < bins; ++gap) sums[gap] = sums[before];
  return sums;
}

Band band_of(const CurveGroup& group, double low, double high) {
  const auto same_places = [&](const Curve& each) { return each.x == group.curves[0].x; };
  const bool keeps_points =
      group.curves[0].x.size() <= 2 * kBins && std::all_of(group.curves.begin(), group.curves.end(), same_places);
  Band band;
  std::vector<std::vector<double>> values;
  for (const Curve& curve : group.curves) values.push_back(keeps_points ? curve.y : binned(curve, low, high, kBins));
  for (std::size_t i = 0; i < values[0].size(); ++i) {
    band.x.push_back(keeps_points ? group.curves[0].x[i]
                                  : low + (static_cast<double>(i) + 0.5) / static_cast<double>(kBins) * (high - low));
    double mean = 0, squares = 0;
    for (const auto& each : values) mean += each[i];
    mean /= static_cast<double>(values.size());
    for (const auto& each : values) squares += (each[i] - mean) * (each[i] - mean);
    band.mean.push_back(mean);
    if (values.size() > 1) band.deviation.push_back(std::sqrt(squares / static_cast<double>(values.size() - 1)));
  }
  return band;
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void take(double value) { low = std::min(low, value), high = std::max(high, value); }
  void widen() {
    if (!(high > low)) low -= 0.5, high += 0.5;
  }
};

/// Marks along x, in the order in which they are drawn; told apart by line and head, not by color alone.
struct Mark {
  learning::StreamEventKind kind;
  std::string_view one, several;
};
constexpr Mark kMarkKinds[] = {{learning::StreamEventKind::warning, "warning", "warnings"},
                               {learning::StreamEventKind::change, "change of the task", "changes of the task"},
                               {learning::StreamEventKind::alarm, "alarm", "alarms"}};

/// Lines over x.
class LinePlot {
 public:
  explicit LinePlot(const PlotData& data) : data_(data) {
    for (const CurveGroup& group : data.groups)
      for (const Curve& curve : group.curves) x_.take(curve.x.front()), x_.take(curve.x.back());
    x_.widen();
    for (const CurveGroup& group : data.groups) bands_.push_back(band_of(group, x_.low, x_.high));
    for (const Band& band : bands_)
      for (std::size_t i = 0; i < band.mean.size(); ++i) {
        const double around = band.deviation.empty() ? 0.0 : band.deviation[i];
        y_.take(band.mean[i] - around), y_.take(band.mean[i] + around);
      }
    // Shares are shown as such.
    if (y_.low >= 0.0 && y_.high <= 1.0) y_ = {0.0, 1.0};
    y_.widen();
    lay_legend();
  }

  std::string draw(const std::string& title) const {
    std::string out = begin(kWidth, bottom() + kBottom, title);
    add_axes(out);
    for (const Mark& mark : kMarkKinds) add_marks(mark, out);
    for (std::size_t i = 0; i < bands_.size(); ++i) add_band(bands_[i], i, out);
    add_legend(out);
    return out + "</svg>\n";
  }

 private:
  double left(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double top(double y) const { return bottom() - (y - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom); }
  double bottom() const { return kHeight - kBottom + legend_height_; }
  static std::string legend_text(const CurveGroup& group) {
    const std::size_t runs = group.curves.size();
    return group.name + (runs > 1 ? ", mean of " + std::to_string(runs) + " and one sd" : "");
  }

  /// Places along x that are drawn: one of those that would lie on each other.
  std::vector<double> marks_of(const Mark& mark) const {
    std::vector<double> places;
    for (const double x : data_.marks[static_cast<std::size_t>(mark.kind)])
      if (x >= x_.low && x <= x_.high && (places.empty() || left(x) - places.back() >= 0.5)) places.push_back(left(x));
    return places;
  }
  /// Of a run of its own all, of several runs those of one.
  std::string legend_text(const Mark& mark) const {
    const std::size_t count = data_.marks[static_cast<std::size_t>(mark.kind)].size();
    return grouped(count) + " " + std::string(count == 1 ? mark.one : mark.several) +
           (data_.files > 1 ? ", of one run" : "");
  }
  void add_mark(const Mark& mark, double x, double from, double to, std::string& out) const {
    const std::string kind(learning::kStreamEventNames[static_cast<std::size_t>(mark.kind)]);
    out += rule_at(x, from, x, to, kind);
    if (mark.kind == learning::StreamEventKind::alarm)
      out += "<path class=\"alarm-head\" d=\"M" + place(x - 4) + "," + place(from) + " L" + place(x + 4) + "," +
             place(from) + " L" + place(x) + "," + place(from + 7) + " Z\"/>\n";
    if (mark.kind == learning::StreamEventKind::warning)
      out += "<circle class=\"warning-head\" cx=\"" + place(x) + "\" cy=\"" + place(from + 3) + "\" r=\"3\"/>\n";
  }
  void add_marks(const Mark& mark, std::string& out) const {
    for (const double x : marks_of(mark)) add_mark(mark, x, kTop + legend_height_, bottom(), out);
  }

  void add_axes(std::string& out) const {
    for (const double y : marks(y_.low, y_.high, 6)) {
      out += rule_at(kLeft, top(y), kWidth - kRight, top(y), "rule");
      out += words_at(kLeft - 8, top(y) + 4, "end", label(y));
    }
    out += rule_at(kLeft, bottom(), kWidth - kRight, bottom(), "rule");
    for (const double x : marks(x_.low, x_.high, 6)) out += words_at(left(x), bottom() + 18, "middle", label(x));
    out += words_at((kLeft + kWidth - kRight) / 2, bottom() + kBottom - 14, "middle", data_.x_name);
  }

  void add_band(const Band& band, std::size_t number, std::string& out) const {
    const std::string color(kLineColors[number % std::size(kLineColors)]);
    const auto point = [&](std::size_t i, double y) { return place(left(band.x[i])) + "," + place(top(y)) + " "; };
    if (!band.deviation.empty()) {
      std::string around;
      for (std::size_t i = 0; i < band.x.size(); ++i) around += point(i, band.mean[i] + band.deviation[i]);
      for (std::size_t i = band.x.size(); i-- > 0;) around += point(i, band.mean[i] - band.deviation[i]);
      out += "<polygon class=\"band\" fill=\"" + color + "\" points=\"" + around + "\"/>\n";
    }
    std::string line;
    for (std::size_t i = 0; i < band.x.size(); ++i) line += point(i, band.mean[i]);
    out += "<polyline class=\"curve\" stroke=\"" + color + "\" points=\"" + line + "\"/>\n";
  }

  /// A line or a kind of marks in the legend: its words, and where they stand.
  struct Entry {
    std::string text;
    double x = 0, y = 0;
    std::size_t group = 0;
    const Mark* mark = nullptr;  // null: a line
  };
  void lay_legend() {
    for (std::size_t i = 0; i < data_.groups.size(); ++i) legend_.push_back({legend_text(data_.groups[i]), 0, 0, i});
    for (const Mark& mark : kMarkKinds)
      if (!marks_of(mark).empty()) legend_.push_back({legend_text(mark), 0, 0, 0, &mark});
    double x = kLeft, y = 41;
    for (Entry& entry : legend_) {
      const double width = 40 + 6.5 * static_cast<double>(entry.text.size());
      if (x > kLeft && x + width > kWidth - kRight) x = kLeft, y += kLegendLine, legend_height_ += kLegendLine;
      entry.x = x;
      entry.y = y;
      x += width;
    }
  }

  void add_legend(std::string& out) const {
    for (const Entry& entry : legend_) {
      if (entry.mark)
        add_mark(*entry.mark, entry.x + 12, entry.y - 6, entry.y + 6, out);
      else
        out += "<line x1=\"" + place(entry.x) + "\" y1=\"" + place(entry.y) + "\" x2=\"" + place(entry.x + 16) +
               "\" y2=\"" + place(entry.y) + "\" stroke=\"" +
               std::string(kLineColors[entry.group % std::size(kLineColors)]) + "\" stroke-width=\"3\"/>\n";
      out += words_at(entry.x + 21, entry.y + 4, "", entry.text);
    }
  }

  const PlotData& data_;
  Range x_, y_;
  std::vector<Entry> legend_;
  double legend_height_ = 0;  // of its lines below the first
  std::vector<Band> bands_;
};

/// From white to blue, and whether letters on it are white.
std::pair<std::string, bool> shade(double share) {
  const double at = std::clamp(share, 0.0, 1.0);
  const auto mix = [&](double from, double to) { return static_cast<int>(std::lround(from + at * (to - from))); };
  char text[16];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mix(247, 8), mix(251, 81), mix(255, 156));
  return {text, at > 0.55};
}

std::string draw_grid(const TaskGrid& grid, const std::string& title) {
  const std::size_t tasks = grid.rows[0].size();
  const double size = tasks > 12 ? 24 : 52, high = tasks > 12 ? 24 : 34;
  const double width = std::max(kLeft + 40 + size * static_cast<double>(tasks) + kRight, 320.0);
  const double height = kTop + 40 + high * static_cast<double>(grid.rows.size()) + 20;
  std::string out = begin(width, height, title);
  out += words_at(
      20, 46, "",
      grid.scenario + ", accuracy in %" + (grid.files > 1 ? ", mean of " + std::to_string(grid.files) + " runs" : ""));
  for (std::size_t task = 0; task < tasks; ++task)
    out += words_at(kLeft + 40 + size * (static_cast<double>(task) + 0.5), kTop + 24, "middle",
                    (tasks > 12 ? "" : "task ") + std::to_string(task + 1));
  for (std::size_t row = 0; row < grid.rows.size(); ++row) {
    const double y = kTop + 34 + high * static_cast<double>(row);
    out += words_at(kLeft + 30, y + high / 2 + 4, "end", row == 0 ? "before" : "after " + std::to_string(row));
    for (std::size_t task = 0; task < tasks; ++task) {
      const auto& accuracy = grid.rows[row][task];
      const double x = kLeft + 40 + size * static_cast<double>(task);
      const auto [color, is_dark] = shade(accuracy.value_or(0.0));
      out += "<rect x=\"" + place(x + 1) + "\" y=\"" + place(y + 1) + "\" width=\"" + place(size - 2) + "\" height=\"" +
             place(high - 2) + "\" fill=\"" + (accuracy ? color : "none") + "\"/>\n";
      if (tasks > 12) continue;
      const std::string text = accuracy ? place(100 * *accuracy) : "-";
      const char* const kind = !accuracy ? "cell" : is_dark ? "cell on-dark" : "cell on-light";
      out += words_at(x + size / 2, y + high / 2 + 4, kind, text);
    }
  }
  return out + "</svg>\n";
}

}  // namespace

std::string plot_svg(const PlotData& data, const std::string& title) {
  return data.grid ? draw_grid(*data.grid, title) : LinePlot(data).draw(title);
}

}  // namespace weft::cli
