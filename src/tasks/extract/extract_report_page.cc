#include "tasks/extract/extract_report_page.h"

#include <string>

#include "base/base64.h"
#include "base/sha256.h"

namespace banyan {
namespace {

// Nothing is asked of anybody: the policy forbids what the page does not try.
constexpr std::string_view kReportBegin = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="banyan"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';style-src 'unsafe-inline';script-src '{SCRIPT}';img-src data:">
<link rel="icon" href="data:,"><title>Extracted values</title><style>
:root{color-scheme:light;--back:#faf9f6;--card:#fff;--front:#23221f;--faint:#6a675f;--line:#e2ded4;--rule:#efece5;
--accent:#2c6e4c;--soft:#e7f0ea;--bad:#a33a1f;--tint:91%;--tint-chroma:.055;--ink:48%;
--sans:system-ui,-apple-system,"Segoe UI",Roboto,Inter,sans-serif;
--serif:"Iowan Old Style","Palatino Linotype",Palatino,P052,Georgia,serif}
:root.dark{color-scheme:dark;--back:#191816;--card:#211f1c;--front:#ebe7de;--faint:#a39d91;--line:#38352f;--rule:#2b2925;
--accent:#7cc49a;--soft:#22332a;--bad:#f09a7c;--tint:37%;--tint-chroma:.06;--ink:78%}
*{box-sizing:border-box}html,body{height:100%}
body{margin:0;font:15px/1.55 var(--sans);background:var(--back);color:var(--front);display:flex;flex-direction:column}
h1,h2,h3{font-weight:600;line-height:1.25;margin:0}small,.faint{color:var(--faint);font-size:13px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}
button,input,select{font:inherit;font-size:14px;color:inherit;background:var(--card);border:1px solid var(--line);
border-radius:7px;padding:5px 11px;min-height:34px}::placeholder{color:var(--faint);opacity:1}button,select{cursor:pointer}button:hover{border-color:var(--faint)}
header{display:flex;gap:8px 10px;align-items:center;flex-wrap:wrap;padding:12px 22px;border-bottom:1px solid var(--line)}
header div:first-child{margin-right:auto}h1{font-size:18px}
.tabs{display:flex;border:1px solid var(--line);border-radius:8px;padding:2px;background:var(--card)}
.tabs button{border:0;min-height:30px}.tabs [aria-selected=true]{background:var(--soft);color:var(--accent);font-weight:600}
main{flex:1;min-height:0;display:grid;grid-template-columns:minmax(230px,330px) minmax(0,1fr)}
main.whole{grid-template-columns:minmax(0,1fr)}main.whole aside{display:none}
aside{display:flex;flex-direction:column;min-height:0;border-right:1px solid var(--line)}
#count{padding:8px 22px;border-bottom:1px solid var(--rule)}
#list{flex:1;min-height:0;overflow:auto;position:relative;outline-offset:-2px}
.entry{position:absolute;left:0;right:0;height:52px;padding:6px 22px;border-bottom:1px solid var(--rule);cursor:pointer;
white-space:nowrap;overflow:hidden}.entry *{overflow:hidden;text-overflow:ellipsis;display:block}
.entry b{font-weight:500;font-size:14px;line-height:20px}.entry small{line-height:19px}.entry.bad b{color:var(--bad)}
.entry[aria-selected=true]{background:var(--soft);box-shadow:inset 3px 0 var(--accent)}
#view{overflow:auto;padding:24px clamp(16px,4vw,48px) 48px;min-width:0}#view>*{max-width:860px}#view>.cards{max-width:none}
h2{font-size:22px;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%;margin:14px 0 26px}
th,td{text-align:left;padding:7px 12px 7px 0;border-bottom:1px solid var(--rule);vertical-align:top;overflow-wrap:anywhere}
th{font-weight:500}thead th{color:var(--faint);font-size:13px;border-color:var(--line)}
th button{border:0;padding:0;min-height:0;background:none;text-align:left;overflow-wrap:anywhere}
.dot{display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:9px;
background:oklch(var(--ink) .13 var(--hue))}.none .dot{opacity:.25}
.null{color:var(--faint);font-style:italic}.bad{color:var(--bad)}td:last-child{white-space:nowrap;width:150px}
.bar{display:inline-block;width:64px;height:6px;border-radius:3px;background:var(--rule);vertical-align:middle;margin-right:9px}
.bar i{display:block;height:6px;border-radius:3px;background:var(--accent)}
h3.document{margin:22px 0 6px;font-size:14px;color:var(--faint)}
.text{white-space:pre-wrap;font:17px/1.65 var(--serif);overflow-wrap:anywhere}
mark{color:inherit;background:oklch(var(--tint) var(--tint-chroma) var(--hue));border-radius:3px;padding:1px 0;
border-bottom:2px solid oklch(var(--ink) .13 var(--hue))}mark.on{outline:2px solid oklch(var(--ink) .13 var(--hue));outline-offset:1px}
mark::after{content:" (" attr(data-names) ")";position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr));gap:18px;align-items:start}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px;min-width:0}
.card h3{font-size:16px;overflow-wrap:anywhere}.card ol{list-style:none;margin:12px 0 0;padding:0}
.card li button{display:grid;grid-template-columns:minmax(0,1fr) auto;gap:0 10px;width:100%;border:0;background:none;
padding:3px 0;min-height:0;text-align:left;font-size:14px}.card li span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.card li button:hover span:first-child{text-decoration:underline}
.card li i{grid-column:1/3;height:4px;border-radius:2px;background:oklch(var(--ink) .1 var(--hue))}
.hist{display:flex;align-items:flex-end;gap:3px;height:44px;margin-top:14px;border-bottom:1px solid var(--line)}
.hist b{flex:1;background:var(--faint);border-radius:2px 2px 0 0}.axis{display:flex;justify-content:space-between}
@media(max-width:760px){body{height:auto}header{padding:12px 16px}header div:first-child{width:100%}#find{flex:1;min-width:120px}
main{display:block}aside{border-right:0;border-bottom:1px solid var(--line)}#list{height:264px;flex:none}
#count,.entry{padding-left:16px;padding-right:16px}#view{overflow:visible}td:last-child{width:auto}
.bar{display:none}}
@media print{aside,header>:not(:first-child){display:none}body,main{display:block;height:auto}}
</style></head><body>
<header><div><h1>Extracted values</h1><small id="sum"></small></div>
<div class="tabs" role="tablist" aria-label="What is shown"><button id="documents" role="tab" aria-controls="view">Documents</button><button
 id="attributes" role="tab" aria-controls="view">Attributes</button></div>
<input id="find" type="search" placeholder="Find" aria-label="Find in documents and values">
<select id="order" aria-label="Order of documents"><option value="input">In order</option><option value="sure">Least sure first</option></select>
<button id="theme" aria-label="Switch between light and dark">◐</button></header>
<main><aside aria-label="Documents"><small id="count" role="status"></small>
<div id="list" role="listbox" tabindex="0" aria-label="Documents"></div></aside>
<section id="view" role="tabpanel" tabindex="-1" aria-label="Chosen document"></section></main>
<noscript><p>This page shows its data with a script, which is part of it.</p></noscript>
<script type="application/json" id="data">)html";

}  // namespace

// Of all scripts only the page's own may run: it is named by its hash.
std::string_view ReportPageBegin() {
  static const std::string page = [] {
    constexpr std::string_view kBegin = "<script>", kEnd = "</script>", kPlace = "{SCRIPT}";
    const std::string_view end = ReportPageEnd();
    const size_t begin = end.find(kBegin) + kBegin.size();
    const std::string_view script = end.substr(begin, end.rfind(kEnd) - begin);
    const Digest digest = Sha256().Add(script).Finish();
    const std::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
    std::string text(kReportBegin);
    return text.replace(text.find(kPlace), kPlace.size(), "sha256-" + Base64(bytes));
  }();
  return page;
}

}  // namespace banyan
