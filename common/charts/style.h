// The look of pages and drawings.
#pragma once

#include <string_view>

namespace coldframe::html {

// Series colours: Okabe & Ito's palette for all kinds of colour vision (2008), its yellow replaced
// by a brown that shows on white; lighter versions for the dark page.
inline constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark;
  --paper: #ffffff; --card: #ffffff; --ink: #1c2126; --soft: #5b6670; --rule: #dde2e7; --on: #ffffff;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7;
  --c4: #e69f00; --c5: #56b4e9; --c6: #7a5c3e; --c7: #4d4d4d; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181c; --card: #1a1f24; --ink: #e6eaee; --soft: #9aa6b1; --rule: #323a42; --on: #0c1116;
  --c0: #4aa8e8; --c1: #ff8a3d; --c2: #2fc79a; --c3: #e39cc4;
  --c4: #f4bd3f; --c5: #8fd0f7; --c6: #b8946c; --c7: #c3c9cf; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; }
.subtitle { color: var(--soft); margin: .3rem 0 0; }
nav { margin: 1.1rem 0 0; font-size: .9rem; }
nav a { color: var(--c0); text-decoration: none; margin-right: 1.1rem; white-space: nowrap; }
nav a:hover { text-decoration: underline; }
section { margin-top: 2.1rem; border-top: 1px solid var(--rule); padding-top: 1rem; }
h2 { font-size: 1.2rem; margin: 0 0 .7rem; }
h3 { font-size: 1rem; margin: 1.1rem 0 .4rem; }
p { max-width: 44rem; margin: .5rem 0; }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .85rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
.num { text-align: right; }
td.num { white-space: nowrap; }
td.num.long { white-space: normal; min-width: 11rem; }
td:first-child:not(.num) { min-width: 7rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.4rem; margin: .6rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
svg.chart { display: inline-block; vertical-align: top; margin: .5rem .8rem .5rem 0; height: auto;
  width: 100%; border-radius: 4px; background: var(--card); font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.framed { display: inline-block; vertical-align: top; width: 100%; margin: .5rem .8rem .5rem 0;
  border-radius: 4px; background: var(--card); }
.framed .title { font-size: 14px; font-weight: 600; margin: 0; padding: 4px 8px; }
.framed > svg.chart { margin: 0; }
.strip { display: flex; align-items: flex-end; }
.strip img { display: block; height: auto; padding: 0 1px; }
.strip img:hover { position: relative; z-index: 1; transform: scale(3); transform-origin: bottom; }
svg text { fill: var(--ink); }
svg .title { font-size: 14px; font-weight: 600; }
svg .tick, svg .label { fill: var(--soft); }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
svg .diagonal { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 4; }
svg .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
svg .dashed { stroke-dasharray: 6 4; }
svg .band { fill: var(--c); fill-opacity: .17; stroke: none; }
svg .dot { fill: var(--c); fill-opacity: .8; }
svg .ring { fill: var(--card); stroke: var(--c); stroke-width: 1.5; }
svg .hover { fill: transparent; }
svg .hover:hover { fill: var(--c); fill-opacity: .6; }
svg .bar, svg .cell { fill: var(--c); }
svg .value { font-size: 13px; }
svg .strong { fill: var(--on); font-weight: 600; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
@media (max-width: 34rem) {
  body { padding: 1.2rem .8rem 3rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .45rem; }
  }
@media print {
  :root { --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --rule: #bbb; --on: #fff;
    --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7;
    --c4: #e69f00; --c5: #56b4e9; --c6: #7a5c3e; --c7: #4d4d4d; }
  html { font-size: 11px; }
  body { max-width: none; padding: 0; font-size: 1rem; }
  nav { display: none; }
  table { font-size: 10px; }
  td.num { white-space: normal; }
  section { margin-top: 1.5rem; }
  p { max-width: none; }
  .scroll { overflow: visible; }
  svg.chart { width: calc(50% - 1rem); }
  .framed { width: calc(40% - 1rem); }
  .framed .title { font-size: 1rem; }
  .scroll > svg.chart, .framed > svg.chart { width: 100%; min-width: 0; }
  svg.chart, .framed, tr, dl > * { break-inside: avoid; }
  h2, h3, h3 + p { break-after: avoid; }
  svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)css";

}  // namespace coldframe::html
