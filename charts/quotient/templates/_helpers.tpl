{{/* Every object has the same name as those that `quotient install` prints: there is one installation in a cluster. */}}
{{- define "quotient.name" -}}quotient{{- end }}

{{- define "quotient.webhooksName" -}}
{{- if and .Values.webhooks.enabled .Values.webhooks.separate }}quotient-webhooks{{ else }}quotient{{ end }}
{{- end }}

{{- define "quotient.labels" -}}
app.kubernetes.io/name: quotient
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "quotient.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The text of the configuration, or nothing. */}}
{{- define "quotient.configuration" -}}
{{- $it := .Values.configuration -}}
{{- if kindIs "string" $it }}{{ $it }}
{{- else if $it }}
{{- merge (dict "apiVersion" "quotient.dev/v1alpha1" "kind" "QuotientConfiguration") $it | toYaml }}
{{ end }}
{{- end }}

{{/* The rules of files/permissions.yaml for one place, rows about the same resource as one rule. Takes a dict: root, place. */}}
{{- define "quotient.rules" -}}
{{- $systems := .root.Values.systems -}}
{{- $rules := list -}}
{{- $verbs := dict -}}
{{- range (.root.Files.Get "files/permissions.yaml" | fromYaml).permissions -}}
{{- if and (eq .place $.place) (or (not .system) (has .system $systems)) -}}
{{- $key := toJson (list .group .resource .names) -}}
{{- if not (hasKey $verbs $key) -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- $_ := set $verbs $key (concat (get $verbs $key | default list) .verbs) -}}
{{- end -}}
{{- end -}}
{{- range $rules }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  {{- with .names }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: {{ get $verbs (toJson (list .group .resource .names)) | toJson }}
{{- end }}
{{- end }}

{{/* A webhook configuration without its kind's name. Takes a dict: root, kind. */}}
{{- define "quotient.webhooks" -}}
{{- $root := .root -}}
{{- $text := $root.Files.Get "files/webhooks.yaml" | replace "@namespace@" $root.Release.Namespace -}}
{{- $found := list -}}
{{- range get (fromYaml $text) .kind -}}
{{- if has .system $root.Values.systems -}}
{{- $webhook := .webhook -}}
{{- if $root.Values.webhooks.url -}}
{{- $path := $webhook.clientConfig.service.path -}}
{{- $_ := set $webhook "clientConfig" (dict "url" (printf "%s%s" (trimSuffix "/" $root.Values.webhooks.url) $path)) -}}
{{- end -}}
{{- $found = append $found $webhook -}}
{{- end -}}
{{- end -}}
{{- if $found }}
apiVersion: admissionregistration.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: quotient
  labels: {{- include "quotient.labels" $root | nindent 4 }}
webhooks: {{- toYaml $found | nindent 2 }}
{{- end }}
{{- end }}

{{/* A Deployment. Takes a dict: root, name, replicas, arguments. */}}
{{- define "quotient.deployment" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $configuration := include "quotient.configuration" $root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "quotient.labels" $root | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ .name }}
      {{- with $values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: quotient
      {{- with $values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: {{ .name }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
      - name: quotient
        image: {{ include "quotient.image" $root }}
        {{- with $values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
        args: {{- toYaml .arguments | nindent 8 }}
        {{- with $values.log.level }}
        env:
        - name: QUOTIENT_LOG
          value: {{ . | quote }}
        {{- end }}
        ports:
        {{- if has .name (list (include "quotient.webhooksName" $root)) }}
        {{- if $values.webhooks.enabled }}
        - name: webhook
          containerPort: 9443
        {{- end }}
        {{- end }}
        - name: metrics
          containerPort: 8080
        - name: probes
          containerPort: 8082
        {{- if and $values.dashboard.enabled (eq .name "quotient") }}
        - name: dashboard
          containerPort: 8081
        {{- end }}
        livenessProbe:
          httpGet:
            path: /livez
            port: probes
          periodSeconds: 10
        readinessProbe:
          httpGet:
            path: /readyz
            port: probes
          periodSeconds: 10
        resources: {{- toYaml $values.resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        {{- $certificate := and $values.webhooks.certificateSecret (eq .name (include "quotient.webhooksName" $root)) }}
        {{- if or $configuration $certificate }}
        volumeMounts:
        {{- if $configuration }}
        - name: configuration
          mountPath: /etc/quotient
          readOnly: true
        {{- end }}
        {{- if $certificate }}
        - name: certificate
          mountPath: /etc/quotient-certificate
          readOnly: true
        {{- end }}
      volumes:
      {{- if $configuration }}
      - name: configuration
        configMap:
          name: quotient
      {{- end }}
      {{- if $certificate }}
      - name: certificate
        secret:
          secretName: {{ $values.webhooks.certificateSecret }}
      {{- end }}
        {{- end }}
{{- end }}

{{/* Flags of both Deployments. */}}
{{- define "quotient.arguments" -}}
- run
- --log={{ .Values.log.format }}
- --systems={{ join "," .Values.systems }}
{{- end }}

{{/* Flags of the replicas that answer webhooks. */}}
{{- define "quotient.webhookArguments" -}}
{{- $namespace := .Release.Namespace -}}
- --webhook=0.0.0.0:9443
{{- if .Values.webhooks.url }}
- --webhook-url={{ .Values.webhooks.url }}
{{- else }}
- --webhook-service={{ $namespace }}/quotient
{{- end }}
{{- if .Values.webhooks.certificateSecret }}
- --webhook-certificate=/etc/quotient-certificate
{{- else }}
- --webhook-secret={{ $namespace }}/quotient-webhook-authority
{{- end }}
{{- end }}

{{/* Flags at the end of both. */}}
{{- define "quotient.lastArguments" -}}
{{- if include "quotient.configuration" . }}
- --config=/etc/quotient/quotient.yaml
{{- end }}
{{- with .Values.extraArguments }}
{{ toYaml . }}
{{- end }}
{{- end }}
