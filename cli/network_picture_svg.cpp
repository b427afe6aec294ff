// SPDX-License-Identifier: Apache-2.0

#include "cli/network_picture.hpp"
#include "cli/text_format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace weft::cli {
namespace {

// Okabe and Ito's colors, which people with any color vision tell apart, and three of Tol's; types beyond them share.
constexpr std::string_view kColors[] = {"#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442",
                                        "#0072b2", "#d55e00", "#999933", "#882255", "#44aa99"};

constexpr std::string_view kStyle = R"(
  .picture { --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --panel: #f3f5f8; --line: #d0d7de; --box: #ffffff;
             --link: #8a949e; --feedback: #b35900; }
  @media (prefers-color-scheme: dark) {
    .picture { --ink: #e6edf3; --soft: #9da7b3; --paper: #0d1117; --panel: #161b22; --line: #30363d; --box: #1f2630;
               --link: #7d8792; --feedback: #f0a050; } }
  .picture text { font: 11px ui-sans-serif, system-ui, sans-serif; fill: var(--soft); }
  .picture .title { font-size: 17px; font-weight: 600; fill: var(--ink); }
  .picture .first { font-weight: 600; font-size: 12px; fill: var(--ink); }
  .picture .port { fill: var(--ink); text-anchor: middle; }
  .picture .paper { fill: var(--paper); } .picture .slice { fill: var(--panel); }
  .picture .place { fill: none; stroke: var(--line); stroke-dasharray: 2 3; }
  .picture .box { fill: var(--box); stroke: var(--line); } .picture .pill { fill: var(--panel); stroke: var(--soft); }
  .picture .link { fill: none; stroke: var(--link); stroke-width: 1.4; }
  .picture .remote { stroke-dasharray: 6 4; } .picture .feedback { stroke: var(--feedback); }
  .picture .tip { fill: var(--link); } .picture .feedback-tip { fill: var(--feedback); }
  .picture .thin .link { stroke-width: .7; opacity: .6; }
  .picture .layer:hover .box { stroke: var(--ink); stroke-width: 1.6; }
)";

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string out = text;
  return out.ends_with(".0") ? out.substr(0, out.size() - 2) : out;
}

std::string attributes(const Area& area) {
  return "x=\"" + number(area.left) + "\" y=\"" + number(area.top) + "\" width=\"" + number(area.width) +
         "\" height=\"" + number(area.height) + "\"";
}

std::string text_at(double x, double y, const char* kind, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" +
         (*kind ? " class=\"" + std::string(kind) + "\"" : "") + ">" + xml_text(text) + "</text>";
}

std::string color(std::size_t type) { return std::string(kColors[type % std::size(kColors)]); }

/// From the right of one box to the left of the other; back or far, below the boxes between.
std::string path_of(const PictureLink& link, bool is_detailed) {
  const double sx = link.from.right(), sy = link.from.middle(), tx = link.to.left, ty = link.to.middle();
  const auto point = [](double x, double y) { return number(x) + " " + number(y); };
  if (!is_detailed) {
    const Area &a = link.from, &b = link.to;
    return "M" + point(a.left + a.width / 2, a.middle()) + "L" + point(b.left + b.width / 2, b.middle());
  }
  const double ahead = tx - sx;
  if (ahead > 0 && (ahead < 200 || std::abs(ty - sy) > 1)) {
    const double bend = std::max(20.0, ahead / 2);
    return "M" + point(sx, sy) + "C" + point(sx + bend, sy) + " " + point(tx - bend, ty) + " " + point(tx, ty);
  }
  const double lane = 12 + 3 * static_cast<double>(link.lane);
  const bool is_below = link.to.top > link.from.bottom();
  const double low = (is_below ? link.from.bottom() : std::max(link.from.bottom(), link.to.bottom())) + lane;
  if (ahead > 0)
    return "M" + point(sx, sy) + "C" + point(sx + 24, sy) + " " + point(sx + 8, low) + " " + point(sx + 44, low) + "L" +
           point(tx - 44, low) + "C" + point(tx - 8, low) + " " + point(tx - 24, ty) + " " + point(tx, ty);
  return "M" + point(sx, sy) + "C" + point(sx + 30, sy) + " " + point(sx + 30, low) + " " + point(sx - 6, low) + "L" +
         point(tx + 6, low) + "C" + point(tx - 34, low) + " " + point(tx - 34, ty) + " " + point(tx, ty);
}

void add_links(const NetworkPicture& picture, std::string& out) {
  out += picture.is_detailed ? "<g aria-hidden=\"true\">\n" : "<g class=\"thin\" aria-hidden=\"true\">\n";
  for (const PictureLink& link : picture.links) {
    out += "<path class=\"link";
    if (link.is_remote) out += " remote";
    if (link.is_feedback) out += " feedback";
    out += "\" d=\"" + path_of(link, picture.is_detailed) + "\"";
    if (picture.is_detailed) out += link.is_feedback ? " marker-end=\"url(#feedback)\"" : " marker-end=\"url(#tip)\"";
    out += "/>\n";
  }
  out += "</g>\n";
}

void add_slices(const NetworkPicture& picture, std::string& out) {
  for (const PictureSlice& slice : picture.slices) {
    out += "<rect class=\"slice\" rx=\"8\" " + attributes(slice.area) + "/>\n";
    if (!slice.title.empty()) out += text_at(slice.area.left + 2, slice.area.top - 6, "", slice.title) + "\n";
    for (const Area& place : slice.places) out += "<rect class=\"place\" rx=\"6\" " + attributes(place) + "/>\n";
  }
}

void add_box(const PictureBox& box, std::string& out) {
  const bool is_port = box.kind == PictureBox::Kind::input || box.kind == PictureBox::Kind::output;
  out += "<g class=\"layer\"><title>" + xml_text(box.about) + "</title>";
  if (is_port) {
    out += "<rect class=\"pill\" rx=\"" + number(box.area.height / 2) + "\" " + attributes(box.area) + "/>";
    out += text_at(box.area.left + box.area.width / 2, box.area.middle() + 4, "port", box.lines.front());
  } else if (box.lines.empty()) {
    out += "<rect " + attributes(box.area) + " fill=\"" + color(box.color) + "\"/>";
  } else {
    out += "<rect class=\"box\" rx=\"5\" " + attributes(box.area) + "/>";
    const Area stripe{box.area.left, box.area.top + 4, 4, box.area.height - 8};
    out += "<rect rx=\"2\" " + attributes(stripe) + " fill=\"" + color(box.color) + "\"/>";
    for (std::size_t i = 0; i < box.lines.size(); ++i)
      out +=
          text_at(box.area.left + 11, box.area.top + 18 + 15 * static_cast<double>(i), i ? "" : "first", box.lines[i]);
  }
  out += "</g>\n";
}

/// Meanings of colors and strokes, a row each, below the picture. Gives their lower end.
double add_legend(const NetworkPicture& picture, std::string& out) {
  double top = picture.height;
  const auto add_row = [&](const std::string& sign, const std::string& text) {
    out += sign + text_at(60, top + 4, "", text) + "\n";
    top += 18;
  };
  for (std::size_t type = 0; type < picture.types.size(); ++type)
    add_row("<rect " + attributes({32, top - 5, 12, 12}) + " fill=\"" + color(type) + "\"/>",
            picture.types[type] + ", " + grouped(picture.uses[type]));
  const auto add_stroke = [&](const char* kind, const char* text) {
    add_row("<path class=\"link " + std::string(kind) + "\" d=\"M26 " + number(top) + "L52 " + number(top) + "\"/>",
            text);
  };
  if (std::ranges::any_of(picture.links, &PictureLink::is_remote)) add_stroke("remote", "remote link");
  if (std::ranges::any_of(picture.links, &PictureLink::is_feedback)) add_stroke("feedback", "feedback");
  for (const std::string& note : picture.notes) add_row("", note);
  return top + 12;
}

std::string facts_of(const NetworkPicture& picture) {
  std::string text;
  for (const std::string& fact : picture.facts) text += (text.empty() ? "" : ", ") + fact;
  return text;
}

std::string marker(const char* name, const char* kind) {
  return "<marker id=\"" + std::string(name) +
         "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
         "<path class=\"" +
         kind + "\" d=\"M0 0L8 4L0 8z\"/></marker>";
}

void append_row(std::string& out, const LayerRow& row) {
  out += "<tr><th scope=\"row\">" + xml_text(row.place) + "</th>";
  for (const std::string* cell : {&row.type, &row.takes, &row.gives, &row.dtype, &row.weights, &row.from})
    out += "<td>" + xml_text(*cell) + "</td>";
  out += "</tr>\n";
}

}  // namespace

std::string xml_text(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string to_svg(const NetworkPicture& picture) {
  std::string legend, out;
  const double height = add_legend(picture, legend);
  // Facts may be wider than a narrow network.
  const std::string facts = facts_of(picture);
  const double width = std::max(picture.width, 48 + 6.2 * static_cast<double>(facts.size()));
  out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" role=\"img\" aria-labelledby=\"name about\" "
      "width=\"" +
      number(width) + "\" height=\"" + number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
      "\">\n<title id=\"name\">" + xml_text(picture.title) + "</title>\n<desc id=\"about\">" + xml_text(facts) +
      "</desc>\n<style>" + std::string(kStyle) + "</style>\n<defs>" + marker("tip", "tip") +
      marker("feedback", "feedback-tip") + "</defs>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  out += text_at(24, 26, "title", picture.title) + "\n" + text_at(24, 43, "", facts) + "\n";
  add_slices(picture, out);
  add_links(picture, out);
  for (const PictureBox& box : picture.boxes) add_box(box, out);
  return out + legend + "</svg>\n";
}

std::string to_html(const NetworkPicture& picture, const std::vector<LayerRow>& rows) {
  std::uint64_t layers = 0;
  for (const std::uint64_t uses : picture.uses) layers += uses;
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + xml_text(picture.title) +
      "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>"
      R"(
  :root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --line: #d0d7de; }
  @media (prefers-color-scheme: dark) {
    :root { --ink: #e6edf3; --soft: #9da7b3; --paper: #0d1117; --line: #30363d; } }
  body { font: 14px/1.5 ui-sans-serif, system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--paper); }
  main { max-width: 90rem; margin: 0 auto; padding: 0 1rem 2rem; }
  figure { margin: 0; overflow-x: auto; } figure:focus-visible { outline: 2px solid #0072b2; }
  svg { display: block; } h2 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
  .table { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
  th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
  tbody th { font-weight: 600; } td:nth-child(6) { text-align: right; } .soft { color: var(--soft); }
)"
      "</style>\n</head>\n<body>\n<main>\n<figure tabindex=\"0\" aria-label=\"Picture of the network\">\n";
  out += to_svg(picture) + "</figure>\n<h2>Layers</h2>\n";
  if (rows.size() < layers)
    out += "<p class=\"soft\">The first " + grouped(rows.size()) + " of " + grouped(layers) + ".</p>\n";
  out += "<div class=\"table\"><table>\n<thead><tr>";
  for (const char* head : {"place", "type", "takes", "gives", "dtype", "weights", "from"})
    out += "<th scope=\"col\">" + std::string(head) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const LayerRow& row : rows) append_row(out, row);
  return out + "</tbody>\n</table></div>\n</main>\n</body>\n</html>\n";
}

}  // namespace weft::cli
