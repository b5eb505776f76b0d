(function(){"use strict";
var $=function(s,r){return (r||document).querySelector(s)},$$=function(s,r){return Array.prototype.slice.call((r||document).querySelectorAll(s))};
$$(".tools").forEach(function(e){e.hidden=false});

// State lives in the address: cell, vs, q, sort.
function state(){var o={};location.hash.slice(1).split("&").forEach(function(p){var i=p.indexOf("=");if(i>0){try{o[p.slice(0,i)]=decodeURIComponent(p.slice(i+1))}catch(e){}}});return o}
function put(change){var s=state();Object.keys(change).forEach(function(k){if(change[k]===""||change[k]==null)delete s[k];else s[k]=change[k]});
 var h=Object.keys(s).map(function(k){return k+"="+encodeURIComponent(s[k])}).join("&");history.replaceState(null,"",h?"#"+h:location.pathname+location.search)}

// Table: sort and filter.
function value(td){var t=td.textContent.trim(),m=/^[×±>]?\s*(-?[\d,]*\.?\d+)/.exec(t);return m?parseFloat(m[1].replace(/,/g,"")):t.toLowerCase()}
function sort(table,col,dir){var body=table.tBodies[0],rows=$$("tr",body);
 rows.forEach(function(r,i){if(r._i==null)r._i=i});
 rows.sort(function(a,b){if(!dir)return a._i-b._i;var x=value(a.cells[col]),y=value(b.cells[col]);
  if(typeof x!==typeof y)return typeof x==="number"?-1:1;return (x<y?-1:x>y?1:a._i-b._i)*dir});
 rows.forEach(function(r){body.appendChild(r)});
 $$("th",table.tHead).forEach(function(th,i){if(i===col&&dir)th.setAttribute("aria-sort",dir>0?"ascending":"descending");else th.removeAttribute("aria-sort")})}
var tables=$$("table.all");
tables.forEach(function(t,n){$$("th",t.tHead).forEach(function(th,i){if(i>=t.tHead.rows[0].cells.length-1)return;var b=document.createElement("button");b.textContent=th.textContent;th.textContent="";th.appendChild(b);
 b.onclick=function(){var now=th.getAttribute("aria-sort"),dir=!now?1:now==="ascending"?-1:0;sort(t,i,dir);put({sort:dir?n+"."+i+"."+dir:""})}})});
var filter=$("#filter");
function apply(q){var n=0,all=0;tables.forEach(function(t){$$("tr",t.tBodies[0]).forEach(function(r){all++;var ok=r.textContent.toLowerCase().indexOf(q.toLowerCase())>=0;r.style.display=ok?"":"none";if(ok)n++})});
 var f=$("#found");if(f)f.textContent=q?n+" of "+all+" cells":""}
if(filter)filter.addEventListener("input",function(){apply(filter.value);put({q:filter.value})});

// Commands: copy.
$$("details.cmd code,pre.cmd code").forEach(function(c){var b=document.createElement("button");b.className="copy";b.textContent="copy";
 b.onclick=function(){var done=function(){b.textContent="copied";setTimeout(function(){b.textContent="copy"},1500)};
  if(navigator.clipboard&&window.isSecureContext)navigator.clipboard.writeText(c.textContent).then(done);
  else{var r=document.createRange();r.selectNodeContents(c);var s=getSelection();s.removeAllRanges();s.addRange(r);try{document.execCommand("copy");done()}catch(e){}}};
 c.parentNode.appendChild(b)});

// Hover: the titles of marks, at once.
var tip=document.createElement("div");tip.id="tip";document.body.appendChild(tip);
$$("figure svg title").forEach(function(t){t.parentNode.setAttribute("data-t",t.textContent)});
document.addEventListener("mousemove",function(e){var m=e.target.getAttribute&&e.target.getAttribute("data-t");
 if(!m){tip.style.display="none";return}var t=$("title",e.target);if(t)t.remove();
 tip.textContent=m;tip.style.display="block";var w=tip.offsetWidth;tip.style.left=Math.max(4,Math.min(innerWidth-w-8,e.clientX+12))+"px";tip.style.top=(e.clientY+16)+"px"});

// Flame graphs: a click on a frame zooms into it, a click on the widest one zooms out.
$$(".flame svg").forEach(function(svg){var rects=$$("rect[data-t]",svg),words=$("g[pointer-events]",svg);if(!rects.length)return;
 rects.forEach(function(r){r._x=+r.getAttribute("x");r._w=+r.getAttribute("width");r._y=+r.getAttribute("y");r.style.cursor="pointer"});
 var X=16,W=1088;function zoom(to){var k=W/to._w;words.textContent="";rects.forEach(function(r){
  var x=X+(r._x-to._x)*k,w=r._w*k,end=Math.min(X+W,x+w);x=Math.max(X,x);w=end-x;
  if(w<=0.2){r.style.display="none";return}r.style.display="";r.setAttribute("x",x);r.setAttribute("width",w);
  var room=Math.floor((w-6)/5.6);if(room<4)return;var n=r.getAttribute("data-t").replace(/ [\d.,]+%.*$/,""),t=document.createElementNS("http://www.w3.org/2000/svg","text");
  t.setAttribute("x",x+3);t.setAttribute("y",r._y+11.5);t.textContent=n.length>room?n.slice(0,room-1)+"…":n;words.appendChild(t)})}
 rects.forEach(function(r){r.addEventListener("click",function(){zoom(r)})})});

// Any two cells, quantile by quantile.
var holder=$("#curves-data"),D=holder?JSON.parse(holder.textContent):null,A=$("#cmp-cell"),B=$("#cmp-vs");
function mean(runs,i){var s=0,n=0;for(var j=0;j<runs.length;j++){if(!(runs[j][i]>0))return null;s+=Math.log(runs[j][i]);n++}return n?s/n:null}
function nines(p){return -Math.log(1-p/100)/Math.LN10}
function el(n,a,t){var e=document.createElementNS("http://www.w3.org/2000/svg",n);for(var k in a)e.setAttribute(k,a[k]);if(t!=null)e.textContent=t;return e}
function fmt(v){return v>=100?v.toFixed(0):v>=10?v.toFixed(1):v>=.1?v.toFixed(2):v.toPrecision(2)}
function compare(){var a=D.cells[A.value],b=D.cells[B.value],box=$("#cmp-plot");box.textContent="";if(!a||!b||a===b){box.textContent=a===b?"Choose two different cells.":"";return}
 var pts=[];D.grid.forEach(function(p,i){var x=mean(a.runs,i),y=mean(b.runs,i);if(x==null||y==null)return;
  var h=D.half[i]<0?null:D.half[i]*Math.sqrt(1/a.runs.length+1/b.runs.length);pts.push({p:p,a:Math.exp(x),b:Math.exp(y),r:x-y,h:h})});
 if(!pts.length){box.textContent="These two have no percentile in common.";return}
 var narrow=innerWidth<=700,W=narrow?360:760,H=260,L=48,R=W-20,T=34,Bt=H-36,lo=-.12,hi=.12;
 pts.forEach(function(q){var h=q.h||0;lo=Math.min(lo,Math.max(-4.6,q.r-h));hi=Math.max(hi,Math.min(4.6,q.r+h))});
 var n0=nines(1),n1=nines(pts[pts.length-1].p)*1.02,X=function(p){return L+(nines(p)-n0)/(n1-n0)*(R-L)},Y=function(r){return Bt-(Math.max(lo,Math.min(hi,r))-lo)/(hi-lo)*(Bt-T)};
 var s=el("svg",{viewBox:"0 0 "+W+" "+H,width:W,height:H,role:"img","aria-label":a.name+" over "+b.name,style:"max-width:"+W+"px","font-family":"system-ui,sans-serif"});
 s.appendChild(el("rect",{x:.5,y:.5,width:W-1,height:H-1,rx:6,"class":"p-frame s-edge"}));
 s.appendChild(el("text",{x:12,y:20,"font-size":13,"font-weight":600,"class":"p-ink"},a.name+" over "+b.name+", ratio (log) with 95% interval"));
 [.1,.2,.5,.8,.9,1,1.1,1.25,2,5,10].forEach(function(v){var l=Math.log(v);if(l<lo||l>hi)return;if(hi-lo>1.2&&(v===.9||v===1.1||v===.8||v===1.25))return;
  s.appendChild(el("path",{d:"M"+L+" "+Y(l)+"H"+R,"class":v===1?"s-axis":"s-grid",fill:"none"}));s.appendChild(el("text",{x:L-6,y:Y(l)+4,"font-size":10.5,"text-anchor":"end","class":"p-muted"},"×"+v))});
 [50,90,99,99.9,99.99].forEach(function(p){if(nines(p)>n1)return;s.appendChild(el("text",{x:X(p),y:Bt+15,"font-size":10.5,"text-anchor":"middle","class":"p-muted"},"p"+p))});
 var band=pts.filter(function(q){return q.h!=null});
 if(band.length>1)s.appendChild(el("path",{d:"M"+band.map(function(q){return X(q.p)+" "+Y(q.r+q.h)}).concat(band.slice().reverse().map(function(q){return X(q.p)+" "+Y(q.r-q.h)})).join("L")+"z","class":"p-blue",opacity:.3}));
 s.appendChild(el("path",{d:"M"+pts.map(function(q){return X(q.p)+" "+Y(q.r)}).join("L"),"class":"s-blue",fill:"none","stroke-width":2}));
 pts.forEach(function(q){var c=el("circle",{cx:X(q.p),cy:Y(q.r),r:4,"class":"p-blue"});
  c.setAttribute("data-t","p"+q.p+": "+fmt(q.a)+" ms over "+fmt(q.b)+" ms = ×"+fmt(Math.exp(q.r))+(q.h!=null?" ["+fmt(Math.exp(q.r-q.h))+" "+fmt(Math.exp(q.r+q.h))+"]":""));s.appendChild(c)});
 var f=document.createElement("figure");f.appendChild(s);box.appendChild(f)}
if(D){[A,B].forEach(function(x){x.addEventListener("change",function(){put({cell:A.value,vs:B.value});compare()})})}

// Follow the address.
function follow(){var s=state();$$(".pick").forEach(function(e){e.classList.remove("pick")});
 if(s.cell){var d=document.getElementById("cell="+s.cell);if(d){d.open=true;d.classList.add("pick");(s.vs&&D&&D.cells[s.cell]&&D.cells[s.vs]?$("#compare"):d).scrollIntoView()}
  $$("tr[data-cell]").forEach(function(r){if(r.getAttribute("data-cell")===s.cell)r.classList.add("pick")})}
 if(D){if(s.cell&&D.cells[s.cell])A.value=s.cell;if(s.vs&&D.cells[s.vs])B.value=s.vs;else if(A.value===B.value){var o=B.options[0].value!==A.value?0:1;B.selectedIndex=o}
  compare()}
 if(s.q!=null&&filter){filter.value=s.q;apply(s.q)}
 if(s.sort){var m=/^(\d+)\.(\d+)\.(-?1)$/.exec(s.sort);if(m&&tables[m[1]]&&tables[m[1]].tHead.rows[0].cells[m[2]])sort(tables[m[1]],+m[2],+m[3])}}
addEventListener("hashchange",function(){follow()});follow();
document.addEventListener("keydown",function(e){if(e.key==="/"&&filter&&!/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)){e.preventDefault();filter.focus()}});

// Where the reader is.
if("IntersectionObserver"in window){var links={};$$("nav a").forEach(function(a){links[a.getAttribute("href").slice(1)]=a});
 var seen=new IntersectionObserver(function(es){es.forEach(function(e){if(e.isIntersecting){Object.keys(links).forEach(function(k){links[k].classList.toggle("here",k===e.target.id)})}})},{rootMargin:"-20% 0px -70% 0px"});
 $$("main>section").forEach(function(s){seen.observe(s)})}
})();
