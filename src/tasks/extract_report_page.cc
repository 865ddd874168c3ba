#include "tasks/extract_report_page.h"

namespace banyan {
namespace {

constexpr std::string_view kReportBegin = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Extracted values</title><style>
:root{color-scheme:light dark;--back:#fbfaf7;--front:#22211e;--faint:#77736a;--line:#dedad0;--card:#fff;--mark:#ffe08a;--good:#2f7d4f;--bad:#b3492d}
@media(prefers-color-scheme:dark){:root:not(.light){--back:#1b1a18;--front:#ece9e2;--faint:#9a958a;--line:#3a3833;--card:#24231f;--mark:#6b5410;--good:#66c08a;--bad:#e08a6d}}
:root.dark{--back:#1b1a18;--front:#ece9e2;--faint:#9a958a;--line:#3a3833;--card:#24231f;--mark:#6b5410;--good:#66c08a;--bad:#e08a6d}
*{box-sizing:border-box}body{margin:0;font:15px/1.5 system-ui,sans-serif;background:var(--back);color:var(--front)}
header{display:flex;gap:12px;align-items:center;flex-wrap:wrap;padding:12px 20px;border-bottom:1px solid var(--line)}
h1{font-size:17px;margin:0 auto 0 0}button,input,select{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:4px 10px}
button[aria-pressed=true]{border-color:var(--front)}main{display:grid;grid-template-columns:minmax(220px,320px) 1fr;min-height:calc(100vh - 60px)}
nav{border-right:1px solid var(--line);padding:12px;overflow:auto;max-height:calc(100vh - 60px)}
nav a{display:block;padding:5px 8px;border-radius:6px;color:inherit;text-decoration:none;cursor:pointer;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
nav a.on{background:var(--card);outline:1px solid var(--line)}nav small{color:var(--faint)}
section{padding:20px;overflow:auto;max-height:calc(100vh - 60px)}
.text{white-space:pre-wrap;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px;overflow-wrap:anywhere}
mark{background:var(--mark);color:inherit;border-radius:3px;padding:0 1px}mark.on{outline:2px solid var(--good)}
table{border-collapse:collapse;width:100%;margin:0 0 18px}td,th{text-align:left;padding:5px 10px;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600}.null{color:var(--faint)}.bar{display:inline-block;height:8px;border-radius:4px;background:var(--good);vertical-align:middle}
.cut{color:var(--bad)}.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(280px,1fr));gap:14px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px}.card h3{margin:0 0 4px;font-size:15px}
.row{display:grid;grid-template-columns:1fr auto;gap:2px 8px;font-size:13px}.row i{grid-column:1/3;height:4px;border-radius:2px;background:var(--good)}
.hist{display:flex;align-items:flex-end;gap:2px;height:40px;margin-top:8px}.hist b{flex:1;background:var(--faint);border-radius:2px 2px 0 0;min-height:1px}
@media(max-width:760px){main{grid-template-columns:1fr}nav{max-height:40vh;border-right:0;border-bottom:1px solid var(--line)}}
</style></head><body>
<header><h1>Extracted values</h1><button id="documents" aria-pressed="true">Documents</button>
<button id="attributes" aria-pressed="false">Attributes</button><input id="find" type="search" placeholder="Find" aria-label="Find">
<select id="order" aria-label="Order"><option value="0">In order</option><option value="1">Least sure first</option></select>
<button id="theme">Light / dark</button></header><main><nav id="list"></nav><section id="view"></section></main>
<script type="application/json" id="data">)html";

constexpr std::string_view kEnd = R"html(</script><script>
'use strict';
const data=JSON.parse(document.getElementById('data').textContent),rows=data.rows,$=id=>document.getElementById(id);
const make=(tag,text,cls)=>{const e=document.createElement(tag);if(text!==undefined)e.textContent=text;if(cls)e.className=cls;return e};
const show=v=>v===null||v===undefined?'null':typeof v==='string'?v:JSON.stringify(v);
const sure=r=>{const c=Object.values(r.confidence||{}).filter(x=>x!==null);return c.length?Math.exp(Math.min(...c)):0};
const page=50;let shown=rows.map((_,i)=>i),at=0,chosen=0,mode='documents';
function filter(){const q=$('find').value.toLowerCase();shown=[];
 for(let i=0;i<rows.length;i++){const r=rows[i];if(!q||(String(r.id)+' '+(r.category||'')+' '+r.text+' '+JSON.stringify(r.values||r.error)).toLowerCase().includes(q))shown.push(i)}
 if($('order').value==='1'){const s=new Map(shown.map(i=>[i,sure(rows[i])]));shown.sort((a,b)=>s.get(a)-s.get(b))}
 at=0;chosen=shown.length?shown[0]:-1;draw()}
function list(){const nav=$('list');nav.replaceChildren();const pages=Math.max(1,Math.ceil(shown.length/page));
 nav.append(make('small',`${shown.length} of ${rows.length} documents, page ${at+1} of ${pages}`));
 const turn=make('div');for(const[t,d]of[['‹',-1],['›',1]]){const b=make('button',t);b.onclick=()=>{at=Math.min(pages-1,Math.max(0,at+d));list()};turn.append(b)}nav.append(turn);
 for(const i of shown.slice(at*page,at*page+page)){const r=rows[i],a=make('a',String(r.id));if(r.error)a.classList.add('cut');if(i===chosen)a.classList.add('on');
  a.append(' ',make('small',(r.category?r.category+' · ':'')+r.text.slice(0,60)));a.onclick=()=>{chosen=i;draw()};nav.append(a)}}
function one(){const view=$('view');view.replaceChildren();if(chosen<0){view.append(make('p','No document.'));return}
 const r=rows[chosen];view.append(make('h2',String(r.id)));if(r.error){view.append(make('p',r.error.kind+': '+r.error.message,'cut'));}
 const marks=[];if(r.values){const table=make('table'),head=make('tr');for(const h of['attribute','value','probability'])head.append(make('th',h));table.append(head);
  for(const name in r.values){const tr=make('tr'),v=r.values[name],c=(r.confidence||{})[name],p=c===null||c===undefined?0:Math.exp(c);
   tr.append(make('td',name),make('td',show(v),v===null?'null':''));const td=make('td'),bar=make('span','', 'bar');bar.style.width=Math.round(p*80)+'px';td.append(bar,' '+p.toFixed(3));
   if((r.truncated||[]).includes(name))td.append(make('span',' cut off','cut'));tr.append(td);table.append(tr);
   const s=(r.spans||{})[name];if(s)marks.push([s[0],s[1],name]);
   tr.onmouseenter=()=>document.querySelectorAll('mark').forEach(m=>m.classList.toggle('on',m.title===name))}
  view.append(table)}
 const chars=Array.from(r.text),text=make('div',undefined,'text');marks.sort((a,b)=>a[0]-b[0]||b[1]-a[1]);let p=0;
 for(const[b,e,name]of marks){if(b<p)continue;text.append(chars.slice(p,b).join(''));const m=make('mark',chars.slice(b,e).join(''));m.title=name;text.append(m);p=e}
 text.append(chars.slice(p).join(''));view.append(text)}
let stats=null;
function attributes(){if(!stats){stats=new Map();for(const r of rows)for(const name in r.values||{}){let s=stats.get(name);if(!s)stats.set(name,s={all:0,filled:0,values:new Map(),hist:new Array(10).fill(0)});
  s.all++;const v=r.values[name],c=(r.confidence||{})[name];if(v!==null){s.filled++;const k=show(v);s.values.set(k,(s.values.get(k)||0)+1)}
  if(c!==null&&c!==undefined)s.hist[Math.min(9,Math.floor(Math.exp(c)*10))]++}}
 const view=$('view'),cards=make('div',undefined,'cards');view.replaceChildren();$('list').replaceChildren(make('small',`${stats.size} attributes, ${rows.length} documents`));
 for(const[name,s]of stats){const card=make('div',undefined,'card');card.append(make('h3',name),make('small',`${s.filled} of ${s.all} filled, ${s.values.size} different`));
  for(const[v,n]of[...s.values].sort((a,b)=>b[1]-a[1]).slice(0,12)){const row=make('div',undefined,'row'),bar=make('i');bar.style.width=Math.max(1,100*n/s.all)+'%';row.append(make('span',v.slice(0,80)),make('span',n),bar);card.append(row)}
  const hist=make('div',undefined,'hist'),most=Math.max(1,...s.hist);hist.title='probability, 0 to 1';for(const n of s.hist){const b=make('b');b.style.height=100*n/most+'%';hist.append(b)}card.append(hist);cards.append(card)}
 view.append(cards)}
function draw(){for(const m of['documents','attributes'])$(m).setAttribute('aria-pressed',m===mode);if(mode==='documents'){list();one()}else attributes()}
for(const m of['documents','attributes'])$(m).onclick=()=>{mode=m;draw()};
let timer=0;$('find').oninput=()=>{clearTimeout(timer);timer=setTimeout(filter,150)};$('order').onchange=filter;
$('theme').onclick=()=>{const e=document.documentElement,dark=e.classList.contains('dark')||(!e.classList.contains('light')&&matchMedia('(prefers-color-scheme:dark)').matches);e.className=dark?'light':'dark'};
filter();
</script></body></html>
)html";

}  // namespace

std::string_view ReportPageBegin() { return kReportBegin; }
std::string_view ReportPageEnd() { return kEnd; }

}  // namespace banyan
